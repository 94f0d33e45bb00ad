# What the kernels of algorithms.hip give, by NumPy.
"""Cases of check.py: whole algorithms."""
import numpy as np

from hip import case, close, same

CDNA = ("gfx90a", "gfx942", "gfx950")


@case()
def scan(run):
    for n in (1, 256, 700):
        a = run.integers(n, -1000, 1000)
        same(run("scan", (1,), (256,), [a], [np.zeros_like(a)], n)[0], np.cumsum(a, dtype=np.int32))


@case()
def stripes(run):
    a = run.normals(3, 16, 64)
    columns, sums = run("stripes", (3,), (64,), [a], [np.zeros((3, 64, 16), np.float32), np.zeros((3, 64, 2), np.float32)])
    same(columns, a.transpose(0, 2, 1))
    weights = np.arange(1, 9)[:, None, None]
    close(sums, (a.reshape(3, 8, 64, 2).astype(np.float64) * weights).sum(1), 1e-5, 1e-5)


@case()
def lookup(run):
    n = 150
    codes, table, weights = run.integers(2 * n, 0, 256, np.uint8), run.normals(256).astype(np.float16), run.normals(n, 2)
    weights = weights.astype(np.float16)
    out, = run("lookup", (1,), (64,), [codes, table, weights], [np.zeros((n, 2), np.float16)], n)
    same(out, table[codes].reshape(n, 2) * weights)


@case()
def bitonic(run):
    a = run.integers((2, 512))
    out, = run("bitonic", (2,), (512,), [], [a])
    same(out, np.sort(a, axis=1))


@case()
def iterate(run):
    n = 200
    z, c = run.normals(n, 2) * np.float32(0.3), run.normals(n, 2) * np.float32(0.2)
    out, = run("iterate", (2,), (128,), [z, c], [np.zeros((n, 2), np.float32)], n)
    x, start = (v.astype(np.float64) @ [1, 1j] for v in (z, c))
    for _ in range(8):
        x = x * x + start
    close(out, np.stack([x.real, x.imag], 1), 1e-4, 1e-5)


@case()
def atomics(run):
    n = 300
    x, y = run.integers(n, -50, 50).astype(np.float32), run.integers(n, 1, 2**62, np.uint64)
    results = [np.zeros(1, np.float32), np.full(1, -100, np.float32), np.array([5, 2**64 - 1, 0], np.uint64),
               np.zeros(1, np.uint32), np.zeros(n, np.uint32)]
    total, most, numbers, ticket, drawn = run("atomics", (3,), (128,), [x, y], results, n)
    same(total, [x.sum()])
    same(most, [x.max()])
    same(numbers, [(5 + int(y.sum())) % 2**64, y.min(), np.bitwise_or.reduce(np.uint64(1) << (y & np.uint64(63)))])
    same(ticket, [n])
    same(drawn, np.ones(n))


@case()
def windows(run):
    first, n = 12, 300
    a = run.integers(600, -9, 9).astype(np.float32)
    out, = run("windows", (2,), (64,), [a], [np.full(600, 77, np.float32)], first, n)
    window = np.concatenate([a[first:first + n], np.zeros(2000, np.float32)])
    halves = window.view(np.float16).astype(np.float32)
    i = np.arange(128)
    rows = window[(4 * i + i // 64 * 4)[:, None] + np.arange(4)]
    want = np.full(600, 77, np.float32)
    want[:512] = (rows + window[i + 11][:, None] + halves[i][:, None]).ravel()
    want[n:] = 77
    same(out, want)


@case()
def attend(run):
    queries, keys = 3, 75
    q, codes = run.normals(queries, 64), run.integers((keys, 64), 0, 16, np.uint32)
    scales = np.stack([np.abs(run.normals(keys)) * 0.1, run.normals(keys) * 0.5], 1).astype(np.float16)
    values = run.normals(keys, 64).astype(np.float16)
    packed = (codes.reshape(keys, 8, 8) << np.arange(0, 32, 4, dtype=np.uint32)).sum(2, dtype=np.uint32)
    out, = run("attend", (queries,), (run.wave,), [q, packed, scales, values], [np.zeros((queries, 64), np.float32)], keys)
    k = codes * scales[:, :1].astype(np.float64) + scales[:, 1:]
    scores = np.exp(q.astype(np.float64) @ k.T / 8)
    close(out, scores @ values / scores.sum(1, keepdims=True), 1e-4, 1e-4)


def bf16(values):
    """Codes, and what they stand for."""
    codes = (values.view(np.uint32) >> 16).astype(np.uint16)
    return codes, (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@case(*CDNA)
def gemm_f16(run):
    a, b = run.normals(64, 96).astype(np.float16), run.normals(96, 32).astype(np.float16)
    out, = run("gemm_f16", (1,), (128,), [a, b], [np.zeros((64, 32), np.float32)], 96)
    close(out, a.astype(np.float64) @ b, 1e-5, 1e-4)


@case(*CDNA)
def pairs_bf16(run):
    (a, x), (b, y) = bf16(run.normals(2, 32, 4)), bf16(run.normals(2, 32, 4))
    out, = run("pairs_bf16", (1,), (64,), [a, b], [np.zeros((2, 32, 32), np.float32)])
    close(out, x @ y.transpose(0, 2, 1) + 0.5, 1e-5, 1e-5)


@case(*CDNA)
def small_f16(run):
    a, b = run.normals(16, 4, 4).astype(np.float16), run.normals(16, 4, 4).astype(np.float16)
    out, = run("small_f16", (1,), (64,), [a, b], [np.zeros((16, 4, 4), np.float32)])
    close(out, a.astype(np.float64) @ b.transpose(0, 2, 1), 1e-5, 1e-5)


@case("gfx1100")
def wmma_bf16(run):
    (a, x), (b, y) = bf16(run.normals(32, 48)), bf16(run.normals(16, 48))
    out, = run("wmma_bf16", (1,), (64,), [a, b], [np.zeros((32, 16), np.float32)], 48)
    close(out, x @ y.T, 1e-5, 1e-4)


@case("gfx1100")
def wmma_halves(run):
    a, b = run.normals(2, 16, 16).astype(np.float16), run.normals(2, 16, 16).astype(np.float16)
    out, = run("wmma_halves", (1,), (32,), [a, b], [np.zeros((2, 16, 16), np.float16)])
    close(out, a.astype(np.float64) @ b.transpose(0, 2, 1) + 0.25, 1e-3, 1e-2)


@case("gfx1100")
def wmma_bytes(run):
    a, b = run.integers((16, 16), -128, 128, np.int8), run.integers((16, 16), 0, 256, np.uint8)
    out, = run("wmma_bytes", (1,), (32,), [a, b], [np.zeros((16, 16), np.int32)])
    same(out, a.astype(np.int64) @ b.astype(np.int64).T + 7)

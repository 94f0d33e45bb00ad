# What the kernels of kernels.hip give, by NumPy.
"""Cases of check.py: single features of the chips."""
import numpy as np

from hip import case, close, same


@case()
def vector_add(run):
    for n in (1, 63, 1000):
        a, b, out = run.normals(n), run.normals(n), np.full(n, 7, np.float32)
        same(run("vector_add", ((n + 255) // 256,), (256,), [a, b], [out], n)[0], a + b)


@case()
def places(run):
    width, height, depth = 6, 4, 4
    out, = run("places", (2, 1, 2), (3, 4, 2), [], [np.zeros((depth, height, width), np.int32)], width, height)
    z, y, x = np.indices((depth, height, width))
    same(out, x + 1000 * y + 1000000 * z)


@case()
def sum_lds(run):
    a = run.normals(5000)
    out, = run("sum_lds", (4,), (256,), [a], [np.zeros(4, np.float32)], len(a))
    parts = [sum(a[i:i + 256].sum(dtype=np.float64) for i in range(256 * g, len(a), 1024)) for g in range(4)]
    close(out, parts, 1e-5, 1e-4)


@case()
def row_sums(run):
    a = run.normals(256)
    out, = run("row_sums", (4,), (64,), [a], [np.zeros_like(a)])
    close(out.reshape(-1, 16), np.repeat(a.reshape(-1, 16).sum(1, dtype=np.float64)[:, None], 16, 1), 1e-5, 1e-5)


@case()
def row_shifts(run):
    a = run.integers(256)
    out, = run("row_shifts", (4,), (64,), [a], [np.zeros((4, 256), np.int32)])
    lane = np.arange(256)
    in_row = lane & 15
    same(out[0], np.where(in_row >= 1, np.roll(a, 1), -1))
    same(out[1], np.where(in_row < 13, np.roll(a, -3), 0))
    rotated = a[(lane & ~15) | ((in_row - 5) & 15)]
    rows = lane % run.wave // 16
    same(out[2], np.where(0x5 >> rows & 1, rotated, -1))
    reversed_quads = a[(lane & ~3) | (3 - (lane & 3))]
    same(out[3], np.where(0x3 >> (lane // 4 % 4) & 1, reversed_quads, -1))


@case()
def lane_exchange(run):
    a = run.integers(256, -1000, 1000)
    out, = run("lane_exchange", (4,), (64,), [a], [np.zeros((4, 256), np.int32)])
    lane = np.arange(256)
    same(out[0], a[lane ^ 1])
    base = lane // run.wave * run.wave
    thread = lane % 64
    same(out[1], a[base + (thread * 7 & 31)])
    same(out[2], a[base + 5] + a[base])
    same(out[3], lane % run.wave)


@case()
def transpose(run):
    n = 64
    a = run.normals(n, n)
    out, = run("transpose", (2, 2), (256,), [a], [np.zeros_like(a)], n)
    same(out, a.T)


@case()
def histogram(run):
    a = run.integers(3000, 0, 2**31 - 1, np.uint32)
    counts, most = run("histogram", (4,), (256,), [a], [np.zeros(16, np.uint32), np.zeros(1, np.uint32)], len(a))
    same(counts, np.bincount(a & 15, minlength=16))
    same(most[0], a.max())


@case()
def collatz(run):
    a = np.arange(1, 301, dtype=np.uint32)

    def steps(x):
        count = 0
        while x != 1 and count <= 400:
            x, count = (3 * x + 1 if x & 1 else x >> 1), count + 1
        return count
    out, = run("collatz", (2,), (192,), [a], [np.zeros(300, np.uint32)], 300)
    same(out, [steps(int(x)) for x in a])


@case()
def math(run):
    n = 500
    a, b = np.abs(run.normals(n)) * 100 + np.float32(1e-3), run.normals(n) * 8
    a[:6] = [1e-30, 3e38, 1, 2.5, 0, np.inf]
    out, = run("math", (2,), (256,), [a, b], [np.zeros((8, n), np.float32)], n)
    x, y = a.astype(np.float64), b.astype(np.float64)
    same(out[0], a / b)
    same(out[1], np.sqrt(a))
    close(out[2], np.exp2(y), 1e-7)
    # Denormal results are zero.
    close(out[3], np.where(1 / x < 2.0**-126, 0, 1 / x), 1e-7)
    close(out[4], 1 / np.sqrt(x), 1e-7)
    close(out[5], np.log2(x), 1e-7, 1e-7)
    close(out[6], (x * y - y).astype(np.float32), 1e-7, 1e-30)
    same(out[7], np.maximum(np.minimum(a, b), np.float32(-1)) + np.floor(b) + np.rint(a))


@case()
def integers(run):
    n = 300
    a, b = run.integers(n), run.integers(n)
    b[:100] //= 1 << 20
    out, = run("integers", (2,), (192,), [a, b], [np.zeros((8, n), np.int32)], n)
    x, y = a.astype(np.int64), b.astype(np.int64)

    def low(values):
        return values.astype(np.uint64).astype(np.uint32).view(np.int32)
    wide = x * y + 12345678901
    same(out[0], low(wide >> 17))
    odd = y | 1
    same(out[1], low(np.sign(x) * np.sign(odd) * (np.abs(x) // np.abs(odd))))
    unsigned = [int(v) & 0xffffffff for v in x], [(int(v) & 0xffffffff) | 1 for v in y]
    same(out[2], low(np.array([p % q for p, q in zip(*unsigned)], np.int64)))
    same(out[3], [bin(p).count("1") + (32 - (p | 1).bit_length()) * 100 for p in unsigned[0]])
    same(out[4], low(np.array([((p << (v & 31)) & 0xffffffff) ^ ((v & 0xffffffff) >> (p & 31)) ^
                               ((p - ((p >> 31) << 32)) >> (v & 15)) & 0xffffffff
                               for p, v in zip(unsigned[0], y.tolist())], np.int64)))
    same(out[5], low(np.maximum(x, y) - np.where(x < 0, y, -x)))
    same(out[6], low((x + y).astype(np.int16).astype(np.int64) * y.astype(np.int8)))
    same(out[7], low(np.array([(int(v) % 2**64) // 1000003 % 2**32 for v in wide], np.int64)))


@case()
def halves(run):
    n = 200
    a, b = run.normals(2 * n).astype(np.float16), (run.normals(2 * n) * 30).astype(np.float16)
    out, = run("halves", (1,), (256,), [a, b], [np.zeros((4, n, 2), np.float16)], n)
    a, b = a.reshape(n, 2), b.reshape(n, 2)
    x, y = a.astype(np.float64), b.astype(np.float64)
    same(out[0], a + b)
    same(out[1], a * b)
    same(out[2], (x * y - y).astype(np.float16))
    close(out[3][:, 0], (x[:, 0] * y[:, 1] + x[:, 1]).astype(np.float16), 2**-10, 1e-6)
    same(out[3][:, 1], np.trunc(np.where(x[:, 0] > y[:, 0], x[:, 1], y[:, 1])).astype(np.float16))


@case()
def bfloats(run):
    a = run.normals(300)
    # A NaN that rounding would make infinity.
    a[:1] = np.array([0x7f800001], np.uint32).view(np.float32)
    codes, back = run("bfloats", (2,), (256,), [a], [np.zeros(300, np.uint16), np.zeros(300, np.float32)], 300)
    bits = a.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    same(codes[0] & 0x7fff > 0x7f80, True)
    same(codes[1:], rounded[1:])
    same(back, (codes.astype(np.uint32) << 16).view(np.float32) * np.float32(3))


@case()
def private_array(run):
    a = run.integers(150, -50, 50)
    out, = run("private_array", (1,), (192,), [a], [np.zeros(150, np.int32)], 150)
    same(out, [sum(int(v) * ((v + k * 5) & 15) * (k + 1) for k in range(16)) for v in a.tolist()])


@case()
def buffers(run):
    a = run.normals(256)
    out, = run("buffers", (4,), (64,), [a], [np.zeros(256, np.float32)], 100)
    known = np.where(np.arange(256) < 100, a, np.float32(0))
    even = np.arange(256) & ~1
    close(out, known + 10 * known[even] + 100 * known[even + 1], 1e-6, 1e-5)


@case()
def variables(run):
    out, = run("variables", (1,), (64,), [], [np.zeros(64, np.int32)])
    same(out, np.tile([3, 1, 4, 1], 16) + 4)


def product(run, kernel, size, dtype, k=64, exact=False, view=None):
    if exact:
        a, b = run.integers((size, k), -128, 128, np.int8), run.integers((k, size), -128, 128, np.int8)
    else:
        a, b = run.normals(size, k).astype(dtype), run.normals(k, size).astype(dtype)
    out, = run(kernel, (1,), (run.wave,), [a, b], [np.zeros((size, size), np.int32 if exact else np.float32)], k)
    want = a.astype(np.float64) @ b.astype(np.float64)
    if exact:
        same(out, want)
    else:
        close(out, want, 1e-5, 1e-4)


CDNA = ("gfx90a", "gfx942", "gfx950")


@case(*CDNA)
def mfma_f16_16(run):
    product(run, "mfma_f16_16", 16, np.float16)


@case(*CDNA)
def mfma_f16_32(run):
    product(run, "mfma_f16_32", 32, np.float16)


@case(*CDNA)
def mfma_f32_16(run):
    product(run, "mfma_f32_16", 16, np.float32)


@case("gfx950")
def mfma_f16_16_k32(run):
    product(run, "mfma_f16_16_k32", 16, np.float16)


@case("gfx942", "gfx950")
def mfma_i8_16(run):
    product(run, "mfma_i8_16", 16, np.int8, exact=True)


@case(*CDNA)
def mfma_bf16_16(run):
    a, b = run.normals(16, 64), run.normals(64, 16)
    codes = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    x, y = [(c.astype(np.uint32) << 16).view(np.float32) for c in codes]
    out, = run("mfma_bf16_16", (1,), (64,), codes, [np.zeros((16, 16), np.float32)], 64)
    close(out, x.astype(np.float64) @ y.astype(np.float64), 1e-5, 1e-4)


def decode_fp8(codes, fnuz):
    codes = codes.astype(np.int64)
    exponent, fraction, bias = codes >> 3 & 15, codes & 7, 8 if fnuz else 7
    value = np.where(exponent == 0, np.ldexp(fraction, 1 - bias - 3), np.ldexp(fraction | 8, exponent - bias - 3))
    value = np.where(codes & 128, -value, value)
    return np.where(codes == 128, np.nan, value) if fnuz else np.where(codes & 127 == 127, np.nan, value)


@case("gfx942", "gfx950")
def mfma_fp8_16(run):
    fnuz = run.chip == "gfx942"
    a, b = run.integers((16, 64), 0, 120, np.uint8), run.integers((64, 16), 0, 120, np.uint8)
    a[::2] |= 128
    a[a == 128] = 1
    out, = run("mfma_fp8_16", (1,), (64,), [a, b], [np.zeros((16, 16), np.float32)], 64)
    close(out, decode_fp8(a, fnuz) @ decode_fp8(b, fnuz), 1e-5, 1e-3)


@case("gfx942", "gfx950", "gfx1201")
def fp8_round(run):
    fnuz = run.chip == "gfx942"
    a = run.normals(256) * np.float32(10)
    a[:8] = [0, -0.0, 1000, -1000, 2**-9, 2**-12, 1.0625, 1.1875]
    codes, back = run("fp8_round", (1,), (64,), [a], [np.zeros(256, np.uint8), np.zeros(256, np.float32)], 256)
    table = decode_fp8(np.arange(256, dtype=np.uint8), fnuz)
    # Half a unit beyond the largest number is NaN.
    limit = 248 if fnuz else 464
    for x, code in zip(a.astype(np.float64), codes):
        distance = np.abs(table - x)
        if np.isnan(table[code]) if abs(x) < limit else not np.isnan(table[code]):
            raise AssertionError(f"expects NaN from {limit}, but got {code:#x} for {x}")
        if abs(x) < limit and distance[code] != np.nanmin(distance):
            raise AssertionError(f"expects the nearest code for {x}, but got {code:#x}")
    same(back, table[codes].astype(np.float32))


@case("gfx1100", "gfx1201")
def wmma_f16(run):
    product(run, "wmma_f16", 16, np.float16)

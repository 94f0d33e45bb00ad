# What the kernels of corners.hip give, by NumPy.
"""Cases of check.py: rarer instructions."""
import numpy as np

from hip import case, same
from vectors import perm
from walk import both


@case()
def scan_dynamic(run):
    n, size = 500, 192
    x = run.integers(n, -1000, 1000)
    out, = run("scan_dynamic", (3,), (size,), [x], [np.zeros(n, np.int32)], n, lds=8 * size)
    same(out, np.concatenate([np.cumsum(x[i:i + size]) for i in range(0, n, size)]))


@case()
def mixed_atomics(run):
    n, size = 300, 128
    x = run.integers(n, -1000, 1000)
    wide, groups = x.astype(np.int64), [x[i:i + size] for i in range(0, n, size)]
    total, parts, most, product, wrapped = run(
        "mixed_atomics", (3,), (size,), [x],
        [np.zeros(1), np.zeros(4, np.float32), np.array([-2**63, 2**63 - 1, 0]), np.array([1, 0], np.uint64), np.zeros(4, np.uint32)],
        n)
    same(total, [x.sum() * 0.5])
    same(parts, [(x & 7).sum(), *(g.min() * 0.25 for g in groups)])
    turned = np.bitwise_xor.reduce((wide.view(np.uint64) << np.uint64(32)) * np.uint64(3))
    same(most, [((wide << 33) - wide).max(), (wide << 20).min() + 1, turned.view(np.int64)])
    factors, bits = 1, 0
    for g in groups:
        bits += int(np.bitwise_or.reduce(np.uint64(1) << (g & 63).astype(np.uint64)))
        for v in g.tolist():
            factors = factors * (2 * (v & 0xffffffff) + 1) % 2**64
    same(product, np.array([factors, bits % 2**64], np.uint64))
    same(wrapped, [n % 100, *((7 - len(g)) % 8 for g in groups)])


@case()
def wide_exchange(run):
    x = run.integers(256, -2**62, 2**62, np.int64)
    out, ranks = run("wide_exchange", (2,), (128,), [x], [np.zeros((256, 4), np.int64), np.zeros((256, 2), np.int32)])
    want, order = np.zeros_like(out), np.zeros_like(ranks)
    for base in range(0, 256, run.wave):
        v = [int(value) for value in x[base:base + run.wave]]
        left = [lane for lane in range(run.wave) if lane % 7 != 5]
        low = np.array(v).astype(np.int32)
        even = [lane for lane in left if v[lane] % 2 == 0]
        for lane in left:
            def of(source, array):
                return array[source] if source in left else 0
            tripled = np.array(v) * 3
            mirror = (lane & ~31) | (31 - (lane & 31))
            want[base + lane] = [of(lane & ~7, v), of((lane + 7) % 28 + (lane & 32), tripled), of(mirror, low),
                                 of(lane ^ 1, low) if lane & 2 else 0]
            order[base + lane] = [even.index(lane) if lane in even else -1,
                                  low[next(other for other in left if v[other] & 3 == v[lane] & 3)]]
    same(out, want)
    same(ranks, order)


@case()
def walks(run):
    program, x = run.integers(40, 0, 256, np.uint8), run.integers(384, -60, 400)
    # A group whose threads all leave before the barrier.
    x[256:] = 3 * (5 * x[256:] + 1)
    results, totals = both(program.tolist(), x.tolist(), 128)
    out, counts = run("walks", (3,), (128,), [program, x], [np.zeros(384, np.int32), np.zeros(3, np.int32)], len(program))
    same(out, results)
    same(counts, totals)


@case()
def packed_integers(run):
    n = 200
    x, y, z = run.integers(n, 0, 2**32, np.uint32), run.integers(n, 0, 2**32, np.uint32), run.integers(n)
    x[:2], y[:2], z[:2] = (0x80808080, 0x88888888), (0x80808080, 0x88888888), 2**31 - 9
    out, = run("packed_integers", (1,), (256,), [x, y, z], [np.zeros((n, 10), np.int32)], n)
    want = []

    def parts(word, bits, signed):
        fields = [word >> bits * i & (1 << bits) - 1 for i in range(32 // bits)]
        return [f - (1 << bits) if signed and f >> bits - 1 else f for f in fields]

    def dot(a, b, bits, signed):
        return sum(p * q for p, q in zip(parts(a, bits, signed), parts(b, bits, signed)))
    bytes_of = np.rint(np.clip(z.astype(np.float32) * np.float32(0.0000001), 0, 255)).astype(np.int64)
    selectors = (z.view(np.uint32) & np.uint32(0x0c0f0b07))
    permuted = perm(x, y, selectors)
    for i, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), z.tolist())):
        u, shift, signed = c & 0xffffffff, c & 31, b - (b >> 31 << 32)
        field = signed >> 3 & (1 << shift) - 1
        field -= (1 << shift) if shift and field >> shift - 1 else 0
        want.append([dot(a, b, 8, True) + c, min(max(dot(a, b, 8, True) + c, -2**31), 2**31 - 1),
                     min(max(dot(a, b, 4, True) + c, -2**31), 2**31 - 1), min(dot(a, b, 8, False) + u, 2**32 - 1),
                     dot(a, b, 4, False) + u, sum(abs(p - q) for p, q in zip(parts(a, 8, False), parts(b, 8, False))) + u,
                     int(permuted[i]), (a << 32 | b) >> 8 * (c & 3), (a >> shift & 511) - field,
                     (a & 0xff00ffff) | int(bytes_of[i]) << 16])
    same(out, np.array([[v & 0xffffffff for v in row] for row in want], np.uint32).view(np.int32))


@case()
def bytes_at_odd_places(run):
    n, size = 501, 256
    x = run.integers(n, 0, 256, np.uint8)
    out, = run("bytes_at_odd_places", (2,), (size,), [x], [np.zeros(10 * n // 2 + 10, np.uint8)], n)
    want = np.zeros_like(out)
    for i in range(n // 2):
        group, t = divmod(i, size)
        pool = np.zeros(size + 3, np.uint8)
        mine = x[size * group:size * group + size]
        pool[:len(mine)] = mine
        signs = int(pool[t:t + 1].view(np.int8)[0]) * int(np.ascontiguousarray(pool[t + 1:t + 3]).view(np.int16)[0])
        want[10 * i + 1:10 * i + 10] = [pool[t + 1], pool[t + 2], pool[t + 1], *np.array([signs], np.int32).view(np.uint8),
                                        x[2 * i], x[2 * i + 1]]
    same(out, want)

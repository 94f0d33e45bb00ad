# What the kernels of gfx950.hip give, by NumPy.
"""Cases of check.py: what gfx950 has beside gfx942."""
import numpy as np

from floats import decoded, fp8, rounded
from hip import case, close, same


def bf16_of(x):
    """The codes of numbers cut to bf16, and the numbers."""
    codes = (x.view(np.uint32) >> 16).astype(np.uint16)
    return codes, (codes.astype(np.uint32) << 16).view(np.float32)


@case("gfx950")
def attention_direct(run):
    n = 96
    q, k, v = (run.normals(rows, 64).astype(np.float16) for rows in (32, n, n))
    out, = run("attention_direct", (1,), (128,), [q, k, v], [np.zeros((32, 64), np.float32)], n)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    # Probabilities are rounded to f16.
    close(out, p @ v.astype(np.float64) / p.sum(1, keepdims=True), 0, 4e-3)


@case("gfx950")
def product_bf16_32(run):
    k, rows = 64, 27
    (a_codes, a), (b_codes, b) = bf16_of(run.normals(32, k)), bf16_of(run.normals(k, 32))
    out, = run("product_bf16_32", (1,), (64,), [a_codes, b_codes], [np.zeros((32, 32), np.float32)], k, rows)
    a[rows:] = 0
    close(out, a.astype(np.float64) @ b.astype(np.float64), 1e-5, 1e-4)


@case("gfx950")
def product_bytes_transposed(run):
    a, b = run.integers((16, 64), -128, 128, np.int8), run.integers((64, 16), -128, 128, np.int8)
    small = run.integers((64, 16), -8, 8)
    nibbles = np.bitwise_or.reduce((small.reshape(64, 2, 8) & 15).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32)), 2)
    out, unpacked = run("product_bytes_transposed", (1,), (64,), [a, b, nibbles.astype(np.uint32)],
                        [np.zeros((16, 16), np.int32), np.zeros((64, 16), np.int32)])
    same(out, a.astype(np.int64) @ b.astype(np.int64))
    same(unpacked, small)


@case("gfx950")
def product_bytes_32(run):
    k = 96
    a, b = run.integers((32, k), -128, 128, np.int8), run.integers((32, k), -128, 128, np.int8)
    out, = run("product_bytes_32", (1,), (64,), [a, b], [np.zeros((32, 32), np.int32)], k)
    same(out, a.astype(np.int64) @ b.astype(np.int64).T)


@case("gfx950")
def scaled_codes(run):
    x = np.ldexp(run.normals(128, 32), run.integers((128, 1), -12, 12))
    # Powers of two with which the largest number of a block has the largest exponent of fp4.
    scales = np.float32(2) ** (np.floor(np.log2(np.abs(x).max(1))) - 2).astype(np.float32)
    four, eight, back, back8 = run("scaled_codes", (2,), (256,), [x, scales], [
        np.zeros(512, np.uint32), np.zeros((128, 32), np.uint8), np.zeros((128, 32), np.float16), np.zeros((128, 32), np.float32)])
    part = x.astype(np.float64) / scales[:, None]
    codes = rounded(np.clip(part, -6, 6), 2, 1).reshape(512, 8)
    same(four, np.bitwise_or.reduce(codes.astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32)), 1))
    same(eight, fp8(part, 4, 127))
    same(back, (decoded(codes, 2, 1).reshape(128, 32) * scales[:, None]).astype(np.float16))
    same(back8, (decoded(fp8(part, 4, 127), 4, 3) * scales[:, None]).astype(np.float32))

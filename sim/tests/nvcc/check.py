#!/usr/bin/env python3
# Kernels that nvcc compiles, run through the simulator's driver interface and compared with NumPy.
"""check.py [--driver LIBRARY] [--folder DIR | --ptx DIR] [case...]

nvcc makes PTX of the .cu files beside this one; the driver loads and launches it as any program would, by ctypes. Every kernel
runs three times: in turn, with warps in random order, and with the CTAs from last to first. The last line is `N passed,
N failed, N skipped`; without nvcc everything is skipped.
"""
import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent))
import walk  # noqa: E402 (beside this folder)
from floats import bf16, decoded, f16, fp8  # noqa: E402

SCHEDULES = {"in turn": {"seed": "0", "order": "forward"}, "random warps": {"seed": "7", "order": "forward"},
             "reverse": {"seed": "0", "order": "reverse"}}


class Driver:
    """The few functions of the driver API that the cases need."""

    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.call("cuInit", 0)
        self.contexts = {}

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            last = self.library.kvcsim_last_error
            last.restype = ctypes.c_char_p
            raise RuntimeError(f"{name}: {result}: {last().decode()}")

    def options(self, options):
        for name, value in options.items():
            if self.library.kvcsim_set_option(name.encode(), value.encode()):
                raise RuntimeError(f"expects the option {name} = {value}")

    def use(self, chip):
        if chip not in self.contexts:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(device), self.library.kvcsim_device(chip.encode()))
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.contexts[chip] = context
        self.call("cuCtxSetCurrent", self.contexts[chip])

    def reset(self):
        """Calls after a kernel that failed fail too, until the context is made anew."""
        for chip in self.contexts:
            device = ctypes.c_int()
            self.library.cuDeviceGet(ctypes.byref(device), self.library.kvcsim_device(chip.encode()))
            self.library.cuDevicePrimaryCtxReset_v2(device)
        self.contexts.clear()

    def load(self, ptx):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        return module

    def upload(self, array):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer, array):
        self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(array.nbytes))

    def tensor_map(self, pointer, rows, columns, box):
        """Of a matrix of floats; the box is rows x columns."""
        storage = (ctypes.c_uint8 * (128 + 64))()
        address = (ctypes.addressof(storage) + 63) // 64 * 64
        two64, two32 = ctypes.c_uint64 * 2, ctypes.c_uint32 * 2
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(address), 7, ctypes.c_uint32(2), pointer,
                  two64(columns, rows), (ctypes.c_uint64 * 1)(columns * 4), two32(box[1], box[0]), two32(1, 1), 0, 0, 0, 0)
        return (ctypes.c_uint8 * 128).from_buffer_copy(ctypes.string_at(address, 128))

    def launch(self, module, kernel, grid, block, shared, arguments):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
        self.call("cuLaunchKernel", function, *map(ctypes.c_uint, grid), *map(ctypes.c_uint, block),
                  ctypes.c_uint(shared), None, pointers, None)
        self.call("cuCtxSynchronize")


class Out(np.ndarray):
    """An array that a kernel writes."""


def out(*shape, dtype="f4", value=0):
    return np.full(shape, value, dtype).view(Out)


def f16_f32(a, b):
    return a.astype("f8") @ b.astype("f8").T


def equal(got, expected):
    return np.array_equal(got, expected)


def close(absolute, relative=0.0):
    return lambda got, expected: bool(np.all(np.abs(got.astype("f8") - expected) <= absolute + relative * np.abs(expected)))


CASES = {}
# File of kernels: the chip that nvcc compiles it for.
SOURCES = {"ampere": "sm_80", "algorithms": "sm_80", "hopper": "sm_90a", "corners": "sm_90a"}


def case(source, **launch):
    def add(make):
        CASES[make.__name__] = (source, launch, make)
        return make
    return add


# Every case gives the arguments in order, and (output, expected, comparison) for what it writes.


@case("ampere", grid=(3, 2, 1), block=(32, 1, 1))
def gemm_f16(rng):
    a, b, c = rng.standard_normal((48, 160)).astype("f2"), rng.standard_normal((64, 160)).astype("f2"), out(48, 64)
    return [a, b, c, np.int32(64), np.int32(160)], [(c, f16_f32(a, b), close(2e-4))]


@case("ampere", grid=(1, 1, 1), block=(32, 1, 1))
def mma_tf32(rng):
    a, b, c = rng.standard_normal((16, 8)).astype("f4"), rng.standard_normal((8, 8)).astype("f4"), out(16, 8)
    # To ten bits, ties away from zero.
    cut = lambda x: ((x.view("u4").astype("u8") + 0x1000) & 0xFFFFE000).astype("u4").view("f4")
    return [a, b, c], [(c, cut(a).astype("f8") @ cut(b).astype("f8").T, close(1e-5))]


@case("ampere", grid=(1, 1, 1), block=(32, 1, 1))
def mma_s8(rng):
    a, b = rng.integers(-128, 128, (16, 32), "i1"), rng.integers(-128, 128, (8, 32), "i1")
    c = out(16, 8, dtype="i4")
    start = np.array([[1 + i // 8 * 2 + j % 2 for j in range(8)] for i in range(16)])
    return [a, b, c], [(c, a.astype("i8") @ b.astype("i8").T + start, equal)]


@case("ampere", grid=(3, 1, 1), block=(256, 1, 1))
def histogram(rng):
    data, counts = rng.integers(0, 256, 5001).astype("u1"), out(256, dtype="u4")
    return [data, counts, np.int32(5001)], [(counts, np.bincount(data, minlength=256), equal)]


@case("ampere", grid=(5, 1, 1), block=(96, 1, 1))
def atomics(rng):
    x, y = rng.standard_normal(480).astype("f4"), rng.integers(-1000, 1000, 480).astype("i4")
    most, least, xor = out(1, value=-100), out(1, dtype="i4", value=5000), out(1, dtype="i4", value=3)
    wrapped, pairs, wide = out(1, dtype="u4"), out(2, dtype="f2"), out(1, dtype="u8")
    return [x, y, most, least, xor, wrapped, pairs, wide], [
        (most, [x.max()], equal), (least, [y.min()], equal), (xor, [np.bitwise_xor.reduce(y) ^ 3], equal),
        (wrapped, [480 % 10], equal), (pairs, [480, 960], equal), (wide, [480 << 33], equal)]


@case("ampere", grid=(7, 1, 1), block=(128, 1, 1))
def sum_last_block(rng):
    x, parts, total = rng.integers(-50, 50, 3000).astype("f4"), out(7), out(1)
    return [x, parts, total, np.int32(3000)], [(total, [x.sum()], equal)]


@case("ampere", grid=(2, 1, 1), block=(64, 1, 1))
def groups(rng):
    x = rng.integers(0, 12, 128).astype("i4")
    scan, rank, leader, sums = (out(128, dtype="i4") for _ in range(4))
    match = out(128, dtype="u4")
    tiles, warps = x.reshape(8, 16), x.reshape(4, 32)
    ranks = np.full((4, 32), -1)
    for w, values in enumerate(warps):
        active = np.flatnonzero(values % 3 == 0)
        ranks[w, active] = np.arange(len(active)) * 100 + len(active)
    lanes = np.arange(16)
    down = np.where(lanes + 2 < 16, lanes + 2, lanes)
    leaders = tiles[:, [5] * 16] + tiles[:, lanes ^ 3] - tiles[:, down]
    masks = [[sum(1 << j for j in range(32) if w[j] % 4 == v % 4) for v in w] for w in warps]
    total = [w.sum() + w.max() + np.bitwise_or.reduce(w) + (w & 1).sum() + 1000 + (5000 if 7 in w else 0) for w in warps]
    return [x, scan, rank, leader, match, sums], [
        (scan, np.cumsum(tiles, 1).ravel(), equal), (rank, ranks.ravel(), equal), (leader, leaders.ravel(), equal),
        (match, np.ravel(masks), equal), (sums, np.repeat(total, 32), equal)]


@case("ampere", grid=(1, 1, 1), block=(1024, 1, 1), shared=4096)
def bitonic(rng):
    data = rng.integers(-(1 << 31), 1 << 31, 1024).astype("i4").view(Out)
    return [data], [(data, np.sort(np.array(data)), equal)]


@case("ampere", grid=(3, 1, 1), block=(64, 1, 1))
def bits(rng):
    n = 150
    x, y = (rng.integers(0, 1 << 32, n, "u4") for _ in range(2))
    x[:3], y[:3] = (0, 1, 0xFFFFFFFF), (0, 0x80000000, 5)
    o, w = out(8 * n, dtype="u4"), out(2 * n, dtype="u8")
    want, wide = [], []
    for a, b in zip(map(int, x), map(int, y)):
        pool, m32 = a | b << 32, 0xFFFFFFFF
        perm = sum((pool >> 8 * (0x3615 >> 4 * i & 7) & 255) << 8 * i for i in range(4))
        shift = b & 31
        signed = a - (1 << 32) if a >> 31 else a
        add4 = sum(((a >> 8 * i & 255) + (b >> 8 * i & 255) & 255) << 8 * i for i in range(4))
        want += [int(f"{a:032b}"[::-1], 2), bin(a).count("1") * 100 + (32 - b.bit_length()), perm,
                 (b << shift | a >> (32 - shift)) & m32 if shift else b, a * b >> 32, (a & -a).bit_length(),
                 a // b if b else a % 7, ((signed >> (b & 15)) & m32) ^ add4]
        wide += [((a << 32 | b) * (b << 32 | a)) >> 64, (a << 32 | b) // (b + 3) + (b << 20) % (a + 5)]
    return [x, y, o, w, np.int32(n)], [(o, np.array(want, "u4"), equal),
                                      (w, np.array([v & (1 << 64) - 1 for v in wide], "u8"), equal)]


@case("ampere", grid=(2, 1, 1), block=(128, 1, 1))
def functions(rng):
    from math import erf
    n = 200
    x = np.concatenate([rng.standard_normal(n - 3) * 2, [0, 1e-3, -4]]).astype("f4")
    f, d, h, bf = out(4 * n), out(n, dtype="f8"), out(n, dtype="f2"), out(n, dtype="u2")
    v = x.astype("f8")
    want = np.stack([0.5 * v * (1 + np.array([erf(t * 0.70710678) for t in v])), np.exp(-v * v) + np.sin(v) * np.cos(v),
                     1 / np.sqrt(v * v + 1) + np.log(v * v + 0.5), np.tanh(v) * (np.abs(v) + 0.25) ** 1.5], 1)
    hv = x.astype("f2")
    half = (hv.astype("f8") * hv + (hv * np.float16(0.5)).astype("f8")).astype("f2")
    scaled = (x * np.float32(1.0078125)).view("u4").astype("u8")
    rounded = (scaled + 0x7FFF + (scaled >> 16 & 1)) >> 16
    return [x, f, d, h, bf, np.int32(n)], [(f, want.ravel(), close(2e-6, 2e-6)),
                                          (d, np.exp(v) / (1 + np.exp(v)) + np.sqrt(np.abs(v)), close(0, 1e-14)),
                                          (h, half, equal), (bf, rounded, equal)]


@case("ampere", grid=(3, 2, 1), block=(32, 8, 1))
def transpose(rng):
    x, y = rng.standard_normal((45, 70)).astype("f4"), out(70, 45)
    return [x, y, np.int32(45), np.int32(70)], [(y, x.T, equal)]


@case("hopper", grid=(3, 3, 1), block=(64, 1, 1))
def tma_scale(rng):
    x, y = rng.standard_normal((41, 84)).astype("f4"), out(41, 84)
    return [("map", x, (16, 32)), ("map", y, (16, 32))], [(y, 2 * x, equal)]


@case("hopper", grid=(1, 1, 1), block=(128, 1, 1))
def wgmma_f16(rng):
    a, b, c = rng.standard_normal((64, 64)).astype("f2"), rng.standard_normal((64, 64)).astype("f2"), out(64, 64)
    return [a, b, c], [(c, f16_f32(a, b), close(1e-4))]


@case("hopper", grid=(8, 1, 1), block=(64, 1, 1))
def cluster_sum(rng):
    x, y = rng.integers(-9, 9, (2, 4, 64)).astype("f4"), out(2, 4, 64)
    weighted = (x * np.arange(1, 5)[:, None]).sum(1, keepdims=True) + np.arange(4)[:, None]
    return [x, y], [(y, weighted, equal)]


@case("hopper", grid=(1, 1, 1), block=(64, 1, 1))
def bulk_ring(rng):
    x, y = rng.integers(-9, 9, (9, 128)).astype("f4"), out(9)
    return [x, y, np.int32(9)], [(y, x.sum(1), equal)]


@case("algorithms", grid=(3, 1, 1), block=(32, 4, 1))
def softmax_half(rng):
    x, y = (3 * rng.standard_normal((11, 344))).astype("f2"), out(11, 344, dtype="f2")
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    return [x, y, np.int32(11), np.int32(344)], [(y, e / e.sum(1, keepdims=True), close(1e-7, 2e-3))]


@case("algorithms", grid=(1, 1, 1), block=(128, 1, 1))
def compact(rng):
    x = rng.integers(-100, 100, 500).astype("i4")
    kept, count, positive = out(500, dtype="i4"), out(1, dtype="i4"), x[x > 0]
    return [x, kept, count, np.int32(500)], [(kept, np.pad(positive, (0, 500 - len(positive))), equal),
                                            (count, [len(positive)], equal)]


@case("algorithms", grid=(2, 1, 1), block=(32, 1, 1))
def cholesky(rng):
    x = rng.standard_normal((2, 32, 32))
    a, factor = x @ x.transpose(0, 2, 1) + 8 * np.eye(32), out(2, 32, 32, dtype="f8")
    return [a, factor], [(factor, np.linalg.cholesky(a), close(1e-11))]


@case("algorithms", grid=(2, 1, 1), block=(32, 1, 1))
def shuffle(rng):
    n, seed, m32 = 50, 2024, 0xFFFFFFFF
    order, numbers, want, mixed = out(n, 16, dtype="u1"), out(n, 4, dtype="u4"), [], []
    for i in range(n):
        items = list(range(16))
        for block in range(4):
            c, key = [i, block, 0, 0], [seed, 0x1234567]
            for _ in range(10):
                first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [second >> 32 ^ c[1] ^ key[0], second & m32, first >> 32 ^ c[3] ^ key[1], first & m32]
                key = [key[0] + 0x9E3779B9 & m32, key[1] + 0xBB67AE85 & m32]
            for w in range(4):
                last = 15 - block * 4 - w
                other = c[w] % (last + 1)
                items[last], items[other] = items[other], items[last]
            mixed.append(c[0] ^ c[1] ^ c[2] ^ c[3])
        want.append(items)
    return [np.uint32(seed), order, numbers, np.int32(n)], [(order, want, equal), (numbers, mixed, equal)]


@case("algorithms", grid=(3, 1, 1), block=(32, 1, 1))
def attention_bf16(rng):
    codes = [(rng.standard_normal((48, 32)).astype("f4").view("u4") >> 16).astype("u2") for _ in range(3)]
    q, k, v = ((c.astype("u4") << 16).view("f4").astype("f8") for c in codes)
    result = out(48, 32)
    weights = np.where(np.tri(48, dtype=bool), np.exp(q @ k.T / 32 ** 0.5), 0)
    return [*codes, result], [(result, weights @ v / weights.sum(1, keepdims=True), close(2e-2))]


@case("corners", grid=(3, 1, 1), block=(96, 1, 1))
def wide_atomics(rng):
    n = 240
    x = rng.integers(-1000, 1000, n).astype("i4")
    total, pair, quad = out(1, dtype="f8"), out(2, dtype="u2"), out(4)
    most, product, shorts, wrapped = out(1, dtype="i8"), out(1, dtype="u8", value=1), out(2, dtype="u2"), out(3, dtype="u4")
    factors = 1
    for v in x.tolist():
        factors = factors * (2 * v + 1 & 0xFFFFFFFF) % 2**64
    odd = int((x & 1).sum())
    return [x, total, pair, quad, most, product, shorts, wrapped, np.int32(n)], [
        (total, [x.sum() * 0.5], equal), (pair, bf16(np.array([odd, -n])), equal),
        (quad, [n, (x & 3).sum(), x.sum(), -2 * n], equal), (most, [((x.astype("i8") << 33) - x).max()], equal),
        (product, np.array([factors], "u8"), equal), (shorts, [3 * (n - odd), 3 * odd], equal),
        (wrapped, [(7 - min(96, n - 96 * b)) % 8 for b in range(3)], equal)]


@case("corners", grid=(2, 1, 1), block=(64, 1, 1))
def shuffles64(rng):
    x = rng.integers(-(1 << 62), 1 << 62, 128)
    x[32:64] = abs(x[32:64])
    x[64:96:3] &= ~np.int64(1)
    shuffled, folded = out(128, 4, dtype="i8"), out(128, dtype="f8")
    reduced, matched = out(128, 6, dtype="i4"), out(128, 3, dtype="u4")
    want, fold, sums, masks = (np.zeros_like(np.asarray(a)) for a in (shuffled, folded, reduced, matched))
    for w in range(4):
        v = x[32 * w:32 * w + 32]
        low, tripled = v.astype("i4"), v * 3
        left = [lane for lane in range(32) if lane % 7 != 5]
        even = [lane for lane in left if v[lane] % 2 == 0]
        mask = sum(1 << lane for lane in left)
        for lane in left:
            i, segment = 32 * w + lane, [other for other in left if other // 8 == lane // 8]
            want[i] = [v[segment[0]], tripled[30 if lane % 2 else 1], len(even), v[lane + 7 if lane % 16 + 7 < 16 else lane]]
            fold[i] = max(v[even].astype("f8")) if lane in even else v[lane]
            sums[i] = [low[left].sum(dtype="i4"), low[segment].min(), low[left].view("u4").max().view("i4"),
                       np.bitwise_and.reduce(low[segment] | 0xF0), np.bitwise_or.reduce(low[segment] & 0x0F0F),
                       np.bitwise_xor.reduce(low[left])]
            one_sign = len(set(v[left] < 0)) == 1
            masks[i] = [sum(1 << other for other in left if v[other] >> 60 == v[lane] >> 60), mask * one_sign, one_sign]
    return [x, shuffled, folded, reduced, matched], [(shuffled, want, equal), (folded, fold, equal), (reduced, sums, equal),
                                                    (matched, masks, equal)]


@case("corners", grid=(3, 1, 1), block=(64, 1, 1))
def pairs(rng):
    n = 150
    x, y, z = (np.float32(4) * rng.standard_normal((n, 2)).astype("f4") for _ in range(3))
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-7, -6e-5, 65000, 448, 0.25], "f4")
    x[:72], y[:72] = np.repeat(special, 12).reshape(72, 2), np.tile(special, 12).reshape(72, 2)
    z[:36] = np.tile(special, 6).reshape(36, 2)
    o, codes, back = out(n, 16, dtype="u4"), out(n, 2, 2, dtype="u1"), out(n, 2, 2, dtype="u2")
    with np.errstate(all="ignore"):
        a, b, c = (f16(v).view("f2").astype("f8") for v in (x, y, z))
        p, q, r = ((bf16(v).astype("u4") << 16).view("f4").astype("f8") for v in (x, y, z))
        relu = lambda v: np.where(np.isnan(v), v, np.where(v > 0, v, 0.0))
        saturated = lambda v: np.where(v > 0, np.minimum(v, 1), 0.0)
        or_nan = lambda f, v, w: np.where(np.isnan(v) | np.isnan(w), np.nan, f(v, w))
        # -0 is less than +0.
        least = lambda v, w: np.where((v == 0) & (w == 0), np.where(np.signbit(v), v, w), np.fmin(v, w))
        most = lambda v, w: -least(-v, -w)
        mask = lambda v: v.astype("u2") * np.uint16(0xFFFF)
        upper = f16(y)
        wide_y = y.astype("f8")
        upper = np.where(upper.view("f2").astype("f8") < wide_y, np.nextafter(upper.view("f2"), np.float16(np.inf)).view("u2"), upper)
        cut = f16(x)
        cut = np.where(np.abs(cut.view("f2").astype("f8")) > np.abs(x), np.nextafter(cut.view("f2"), np.float16(0)).view("u2"), cut)
        columns = [f16(a * b + c), f16(relu(a * b + c)), f16(saturated(a * b + c)), f16(saturated(a + b)),
                   f16(or_nan(least, a, b)), f16(most(a, -b)), mask(a > b), mask(a != c), f16(np.abs(a * c)), bf16(p * q + r),
                   bf16(relu(p * q + r)), bf16(or_nan(most, p, q)), bf16(least(p, -r)), bf16(p * q), mask(p <= q),
                   np.stack([cut[:, 0], upper[:, 1]], 1)]
        e4m3, e5m2 = fp8(x, 4, 0x7E), fp8(y.astype("f8") * 64, 5, 0x7B)
        four = np.where(e4m3 & 127 == 127, np.nan, decoded(e4m3, 4, 3))
    want = np.stack([v[:, 0].astype("u4") | v[:, 1].astype("u4") << 16 for v in columns], 1)

    def same_numbers(got, expected):
        halves = [np.ascontiguousarray(v).view("u2").reshape(n, 16, 2) & 0xFFFF for v in (got, expected.astype("u4"))]
        limit = np.where((np.arange(16) >= 9) & (np.arange(16) < 14), 0x7F80, 0x7C00)[None, :, None]
        is_mask = np.isin(np.arange(16), (6, 7, 14))[None, :, None]
        nan = [((h & 0x7FFF) > limit) & ~is_mask for h in halves]
        return bool(np.all((halves[0] == halves[1]) | (nan[0] & nan[1])))
    return [x, y, z, o, codes, back, np.int32(n)], [
        (o, want, same_numbers), (codes, np.stack([e4m3, e5m2], 1), equal),
        (back, np.stack([f16(four), e5m2.astype("u2") << 8], 1), lambda got, want: bool(np.all(
            (got == want) | (((got & 0x7FFF) > 0x7C00) & ((want & 0x7FFF) > 0x7C00)))))]


@case("corners", grid=(2, 3, 1), block=(32, 1, 1))
def ragged_product(rng):
    m, n, k = 41, 24, 72
    a, b = bf16(rng.standard_normal((m, k))), bf16(rng.standard_normal((k, n)))
    c = out(m, n, dtype="u2", value=0x1234)
    value = lambda codes: (codes.astype("u4") << 16).view("f4").astype("f8")
    return [a, b, c, np.int32(m), np.int32(n), np.int32(k)], [
        (c, value(bf16(value(a) @ value(b))), lambda got, want: bool(np.all(np.abs(value(got) - want) <= np.abs(want) / 128 + 1e-5)))]


@case("corners", grid=(3, 1, 1), block=(128, 1, 1))
def walks(rng):
    length = 40
    program, x = rng.integers(0, 256, length).astype("u1"), rng.integers(-60, 400, 384).astype("i4")
    # A block whose threads all leave before the second barrier.
    x[256:] = 3 * (5 * x[256:] + 1)
    results, counts = out(384, dtype="i4"), out(3, dtype="i4")

    want, total = walk.both(program.tolist(), x.tolist(), 128)
    return [program, np.int32(length), x, results, counts], [(results, want, equal), (counts, total, equal)]


@case("corners", grid=(2, 1, 1), block=(96, 1, 1))
def packed_integers(rng):
    n = 160
    x, y = (rng.integers(0, 1 << 32, n, "u4") for _ in range(2))
    z, o, want = rng.integers(-(1 << 31), 1 << 31, n).astype("i4"), out(n, 10, dtype="i4"), []
    x[:2], y[:2] = (0x80808080, 0x7FFF8000), (0x80808080, 0x80007FFF)

    def parts(v, bits, signed):
        fields = [v >> bits * i & (1 << bits) - 1 for i in range(32 // bits)]
        return [f - (1 << bits) if signed and f >> bits - 1 else f for f in fields]

    def packed(values, bits):
        return sum((v & (1 << bits) - 1) << bits * i for i, v in enumerate(values))
    for a, b, c in zip(x.tolist(), y.tolist(), z.tolist()):
        u8, s8, b8, t8 = parts(a, 8, False), parts(a, 8, True), parts(b, 8, False), parts(b, 8, True)
        u16, s16, v16, t16 = parts(a, 16, False), parts(a, 16, True), parts(b, 16, False), parts(b, 16, True)
        c16 = parts(c & 0xFFFFFFFF, 16, True)
        dot = lambda p, q: sum(i * j for i, j in zip(p, q))
        sums = [parts(packed([i + j], 16), 16, True)[0] for i, j in zip(s16, t16)]
        add32 = (a + b + (1 << 31)) % (1 << 32) - (1 << 31)
        want.append([dot(s8, t8) + c, dot(u8, b8) + c, dot(u8, t8) + c, dot(s16, t8[:2]) + c, dot(u16, b8[2:]) + c,
                     packed([max(i, j) for i, j in zip(s16, t16)], 16), packed([max(i, j, 0) for i, j in zip(sums, c16)], 16),
                     packed([min(i, j, k & 0xFFFF) for i, j, k in zip(u16, v16, c16)], 16), min(add32, c),
                     packed([(i + j + (i + j >= 0)) >> 1 for i, j in zip(s8, t8)], 8)])
    return [x, y, z, o, np.int32(n)], [(o, np.array([[v & 0xFFFFFFFF for v in row] for row in want], "u4").view("i4"), equal)]


def run(driver, ptx, name):
    """Empty, or what is wrong."""
    source, launch, make = CASES[name]
    driver.use(SOURCES[source])
    module = driver.load(ptx[source])
    arguments, results = make(np.random.default_rng(len(name)))
    buffers, words = [], []
    for argument in arguments:
        box = None
        if isinstance(argument, tuple):
            _, argument, box = argument
        if isinstance(argument, np.ndarray) and argument.ndim:
            pointer = driver.upload(argument)
            buffers.append((argument, pointer))
            words.append(driver.tensor_map(pointer, *argument.shape, box) if box else pointer)
        else:
            words.append(ctypes.c_int32(int(argument)))
    driver.launch(module, name, launch["grid"], launch["block"], launch.get("shared", 0), words)
    problem = ""
    for array, pointer in buffers:
        for number, (output, expected, compare) in enumerate(results):
            if output is array:
                got = np.empty_like(np.asarray(array))
                driver.download(pointer, got)
                if not compare(got, np.asarray(expected).reshape(got.shape)):
                    wrong = np.flatnonzero(got.ravel() != np.asarray(expected).ravel())[:4]
                    problem = problem or (f"output {number} differs, at {wrong.tolist()} {got.ravel()[wrong].tolist()} "
                                          f"instead of {np.asarray(expected).ravel()[wrong].tolist()}")
        driver.call("cuMemFree_v2", pointer)
    driver.call("cuModuleUnload", module)
    return problem


def main():
    parser = argparse.ArgumentParser(prog="check.py")
    parser.add_argument("--driver", type=Path, default=ROOT / "build/lib/libkvcsim_cuda.so")
    parser.add_argument("--folder", type=Path, help="where PTX goes (default: a temporary folder)")
    parser.add_argument("--ptx", type=Path, help="a folder that an earlier run wrote: nvcc is not needed")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    nvcc = shutil.which("nvcc")
    if not nvcc and not options.ptx:
        print(f"no nvcc\n0 passed, 0 failed, {len(CASES)} skipped")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.ptx or options.folder or Path(temporary)
        ptx = {}
        for source, chip in SOURCES.items():
            target = folder / f"{source}.ptx"
            if not options.ptx:
                subprocess.run([nvcc, "-std=c++17", "-ptx", "-lineinfo", f"-arch={chip}", HERE / f"{source}.cu", "-o", target],
                               check=True)
            ptx[source] = target.read_bytes()
    driver = Driver(options.driver)
    driver.options({"log": "off"})
    passed = failed = 0
    for name in options.cases or CASES:
        for schedule, settings in SCHEDULES.items():
            driver.options(settings)
            try:
                problem = run(driver, ptx, name)
            except RuntimeError as error:
                problem = str(error)
                driver.reset()
            passed, failed = passed + (not problem), failed + bool(problem)
            print(f"{'FAIL' if problem else 'PASS'}: {name}, {schedule}{': ' if problem else ''}{problem}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

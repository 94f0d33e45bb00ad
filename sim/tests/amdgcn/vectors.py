# Single AMD instructions on the simulator, compared with NumPy.
"""Run by check.py. Each row of the tables is an instruction in assembler text. A kernel loads its sources, one value per lane, runs it and
stores the result; all kernels of a chip are one assembly. Faults that are expected are rows, too: what a dropped wait, a
missing wait state or an unknown instruction must say.
"""
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hip import CHIPS
from amd_kinds import assemble  # hip.py adds its folder to the path
from floats import bf16, decoded, f16, fp8, rounded

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1201")
ALL = CDNA + RDNA

F32 = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 3.5, 0.1, -1e-3, 65504.0, 1e10, -3.4e38, 1e-40, -1e-45, np.inf, -np.inf, np.nan,
       2**-126, 123456.789, -7.0, 0.5, 2.5, 8388609.0, -0.75]
F16 = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 3.5, 0.1, -1e-3, 65504.0, 6e-8, -5e-5, np.inf, -np.inf, np.nan, 2.0, 1000.0,
       -333.25, 0.333, 2049.0]
B32 = [0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x12345678, 0x80008000, 0x00ff00ff, 65535, 65536,
       0xdeadbeef, 100, 0xffff8000, 7, 0x55555555, 0xaaaaaaaa]


def spread(values, dtype, step):
    """64 lanes of them, in an order of its own for each operand."""
    array = np.array(values).astype(dtype)
    return array[(np.arange(64) * step + step // 3) % len(array)]


@dataclass
class Row:
    """`text`: d, a, b, c stand for registers; types: of d and of the sources."""
    text: str
    types: str
    expected: object
    chips: tuple = ALL
    tolerance: float = 0.0
    # What the upper half of a 16-bit result is: nothing, or what was there.
    upper: int = 0
    # Results that are pairs of numbers, where any NaN is as good: 2 for f32, the code of infinity for 16 bits.
    nans: int = 0


FORMATS = {"f32": (np.float32, F32), "f16": (np.float16, F16), "u32": (np.uint32, B32), "i32": (np.int32, B32),
           "u16": (np.uint16, B32), "i16": (np.int16, B32), "f64": (np.float64, F32), "u64": (np.uint64, B32),
           "i64": (np.int64, B32)}


def f32(x):
    return np.asarray(x, np.float32)


def wide(x):
    return np.asarray(x).astype(np.float64)


def max_num(a, b):
    return np.fmax(a, b)


def flushed(x):
    return np.where(np.abs(x) < np.float32(2**-126), np.copysign(np.float32(0), x), x)


def popcount(x):
    return np.array([bin(int(v)).count("1") for v in x], np.uint32)


def perm(a, b, c):
    result = []
    for x, y, s in zip(a.tolist(), b.tolist(), c.tolist()):
        data = [(y >> 8 * i) & 255 for i in range(4)] + [(x >> 8 * i) & 255 for i in range(4)]
        word = 0
        for i in range(4):
            k = s >> (8 * i) & 255
            byte = data[k] if k < 8 else (255 if data[2 * (k - 8) + 1] & 128 else 0) if k < 12 else 0 if k == 12 else 255
            word |= byte << (8 * i)
        result.append(word)
    return np.array(result, np.uint32)


def bfe_signed(a, b, c):
    out = []
    for x, s, w in zip(a.tolist(), (b & 31).tolist(), (c & 31).tolist()):
        field = (x >> s) & ((1 << w) - 1)
        out.append(field - (1 << w) if w and field >> (w - 1) & 1 else field)
    return np.array(out).astype(np.int32)


GFX950 = ("gfx950",)


def scale_of(scale):
    """Of a scale only the exponent counts."""
    exponent = (scale.view(np.uint32) >> 23 & 255).astype(np.int64)
    return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - 127))


def e4m3(codes):
    return np.where(codes & 127 == 127, np.nan, decoded(codes, 4, 3))


def e5m2(codes):
    value = np.where(codes & 127 > 124, np.nan, decoded(codes, 5, 2))
    return np.where(codes & 127 == 124, np.copysign(np.inf, value), value)


def e2m1(codes):
    return decoded(codes & 15, 2, 1)


def to_e2m1(x):
    """What is too large is the largest number, as is NaN, for which there is no code."""
    return np.where(np.isnan(x), 7, rounded(np.clip(x, -6, 6), 2, 1))


def pair32(low, high):
    return f32(low).view(np.uint32).astype(np.uint64) | f32(high).view(np.uint32).astype(np.uint64) << np.uint64(32)


def pair16(low, high):
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def halves_of(words):
    return [wide((words >> 16 * i).astype(np.uint16).view(np.float16)) for i in range(2)]


def kept(words, shift, bits):
    """The words in the place of 0x5a5a5a5a's bits."""
    mask = ((1 << bits) - 1) << shift
    return np.uint32(0x5a5a5a5a & ~mask) | (words.astype(np.uint32) << np.uint32(shift)) & np.uint32(mask)


SCALED = [
    # Codes times a power of two.
    Row("v_cvt_scalef32_pk_f32_fp8 d2, a, b", "u64 u32 f32",
        lambda a, s: pair32(e4m3(a & 255) * scale_of(s), e4m3(a >> 8 & 255) * scale_of(s)), GFX950, nans=2),
    Row("v_cvt_scalef32_pk_f32_bf8 d2, a, b op_sel:[1,0,0]", "u64 u32 f32",
        lambda a, s: pair32(e5m2(a >> 16 & 255) * scale_of(s), e5m2(a >> 24) * scale_of(s)), GFX950, nans=2),
    Row("v_cvt_scalef32_pk_f32_fp4 d2, a, b op_sel:[1,1,0]", "u64 u32 f32",
        lambda a, s: pair32(e2m1(a >> 24) * scale_of(s), e2m1(a >> 28) * scale_of(s)), GFX950, nans=2),
    Row("v_cvt_scalef32_pk_f16_fp4 d, a, b op_sel:[0,1,0]", "u32 u32 f32",
        lambda a, s: pair16(f16(e2m1(a >> 16) * scale_of(s)), f16(e2m1(a >> 20) * scale_of(s))), GFX950, nans=0x7c00),
    Row("v_cvt_scalef32_pk_f16_fp8 d, a, 4.0", "u32 u32",
        lambda a: pair16(f16(e4m3(a & 255) * 4), f16(e4m3(a >> 8 & 255) * 4)), GFX950, nans=0x7c00),
    Row("v_cvt_scalef32_pk_bf16_bf8 d, a, b op_sel:[1,0,0]", "u32 u32 f32",
        lambda a, s: pair16(bf16(e5m2(a >> 16 & 255) * scale_of(s)), bf16(e5m2(a >> 24) * scale_of(s))), GFX950, nans=0x7f80),
    Row("v_cvt_scalef32_f32_fp8 d, a, b op_sel:[1,1,0]", "f32 u32 f32", lambda a, s: f32(e4m3(a >> 24) * scale_of(s)), GFX950),
    Row("v_cvt_scalef32_f16_bf8 d, a, b op_sel:[0,1,0]", "f16 u32 f32",
        lambda a, s: f16(e5m2(a >> 16 & 255) * scale_of(s)).view(np.float16), GFX950, upper=0x5a5a),
    # Numbers over a power of two; codes beside them stay.
    Row("v_cvt_scalef32_pk_fp8_f32 d, a, b, c", "u32 f32 f32 f32",
        lambda a, b, s: kept(fp8(wide(a) / scale_of(s), 4, 127) | fp8(wide(b) / scale_of(s), 4, 127).astype(np.uint32) << 8, 0, 16),
        GFX950),
    Row("v_cvt_scalef32_pk_bf8_f32 d, a, b, 0.5 op_sel:[0,0,0,1]", "u32 f32 f32",
        lambda a, b: kept(fp8(wide(a) * 2, 5, 124) | fp8(wide(b) * 2, 5, 124).astype(np.uint32) << 8, 16, 16), GFX950),
    Row("v_cvt_scalef32_pk_fp4_f32 d, a, b, 2.0 op_sel:[0,0,0,1]", "u32 f32 f32",
        lambda a, b: kept(to_e2m1(wide(a) / 2) | to_e2m1(wide(b) / 2) << 4, 16, 8), GFX950),
    Row("v_cvt_scalef32_pk_fp4_f16 d, a, 4.0 op_sel:[0,0,1,1]", "u32 u32",
        lambda a: kept(to_e2m1(halves_of(a)[0] / 4) | to_e2m1(halves_of(a)[1] / 4) << 4, 24, 8), GFX950),
    Row("v_cvt_scalef32_pk_fp8_bf16 d, a, b op_sel:[0,0,1]", "u32 u32 f32",
        lambda a, s: kept(fp8(wide((a << 16).view(np.float32)) / scale_of(s), 4, 127) |
                          fp8(wide((a & np.uint32(0xffff0000)).view(np.float32)) / scale_of(s), 4, 127).astype(np.uint32) << 8, 16, 16),
        GFX950),
    # What is too large has no code: infinity or NaN.
    Row("v_cvt_pk_bf8_f32 d, a, b", "u16 f32 f32", lambda a, b: fp8(wide(a), 5, 124) | fp8(wide(b), 5, 124).astype(np.uint16) << 8,
        GFX950, upper=0x5a5a),
    Row("v_ashr_pk_i8_i32 d, a, b, c", "u16 i32 i32 u32",
        lambda a, b, c: sum((np.clip(x >> (c & 31).astype(np.int32), -128, 127) & 255) << 8 * i for i, x in enumerate((a, b))), GFX950,
        upper=0x5a5a),
    Row("v_ashr_pk_u8_i32 d, a, b, 3", "u16 i32 i32", lambda a, b: sum(np.clip(x >> 3, 0, 255) << 8 * i for i, x in enumerate((a, b))),
        GFX950, upper=0x5a5a),
    Row("v_prng_b32_e32 d, a", "u32 u32", lambda a: (a << 1) ^ np.where(a >> 31, 197, 0).astype(np.uint32), GFX950),
]
ROWS = SCALED + [
    # Floating point, modifiers of sources and results.
    Row("v_add_f32_e32 d, a, b", "f32 f32 f32", lambda a, b: a + b),
    Row("v_sub_f32_e32 d, a, b", "f32 f32 f32", lambda a, b: a - b),
    Row("v_mul_f32_e32 d, a, b", "f32 f32 f32", lambda a, b: a * b),
    Row("v_add_f32_e64 d, -a, |b|", "f32 f32 f32", lambda a, b: -a + np.abs(b)),
    Row("v_mul_f32_e64 d, a, b clamp", "f32 f32 f32",
        lambda a, b: np.where(np.isnan(a * b), 0, np.clip(a * b, 0, 1)).astype(np.float32) + np.float32(0)),
    Row("v_mul_f32_e64 d, a, b mul:2", "f32 f32 f32", lambda a, b: a * b * np.float32(2)),
    Row("v_add_f32_e64 d, a, 0.15915494", "f32 f32", lambda a: a + np.uint32(0x3e22f983).view(np.float32)),
    Row("v_fma_f32 d, a, b, c", "f32 f32 f32 f32", lambda a, b, c: f32(wide(a) * wide(b) + wide(c)), ALL, 1e-7),
    # The constant is 1.5.
    Row("v_fmamk_f32 d, a, 0x3fc00000, b", "f32 f32 f32", lambda a, b: f32(wide(a) * 1.5 + wide(b)), ("gfx942",) + RDNA, 1e-7),
    Row("v_fmaak_f32 d, a, b, 0x3fc00000", "f32 f32 f32", lambda a, b: f32(wide(a) * wide(b) + 1.5), ("gfx942",) + RDNA, 1e-7),
    # Products are rounded before the sum, denormals are zero.
    Row("v_madmk_f32 d, a, 0x3fc00000, b", "f32 f32 f32", lambda a, b: flushed(flushed(a) * f32(1.5)) + flushed(b), ("gfx90a",)),
    Row("v_madak_f32 d, a, b, 0x3fc00000", "f32 f32 f32", lambda a, b: flushed(flushed(a) * flushed(b)) + f32(1.5), ("gfx90a",)),
    Row("v_max3_f32 d, a, b, c", "f32 f32 f32 f32", lambda a, b, c: max_num(max_num(a, b), c), CDNA + ("gfx1100",)),
    Row("v_floor_f32_e32 d, a", "f32 f32", np.floor),
    Row("v_rndne_f32_e32 d, a", "f32 f32", np.rint),
    Row("v_rcp_f32_e32 d, a", "f32 f32", lambda a: flushed(f32(1 / wide(flushed(a))))),
    Row("v_rsq_f32_e32 d, a", "f32 f32", lambda a: f32(1 / np.sqrt(wide(flushed(a))))),
    Row("v_exp_f32_e32 d, a", "f32 f32", lambda a: flushed(f32(np.exp2(wide(flushed(a))))), ALL, 1e-7),
    Row("v_log_f32_e32 d, a", "f32 f32", lambda a: f32(np.log2(wide(flushed(a)))), ALL, 1e-7),
    Row("v_ldexp_f32 d, a, -3", "f32 f32", lambda a: np.ldexp(a, -3)),
    Row("v_cvt_i32_f32_e32 d, a", "i32 f32",
        lambda a: np.where(np.isnan(a), 0, np.clip(np.trunc(wide(a)), -2**31, 2**31 - 1)).astype(np.int64).astype(np.int32)),
    Row("v_cvt_u32_f32_e32 d, a", "u32 f32",
        lambda a: np.where(np.isnan(a), 0, np.clip(np.trunc(wide(a)), 0, 2**32 - 1)).astype(np.int64).astype(np.uint32)),
    Row("v_cvt_f32_u32_e32 d, a", "f32 u32", lambda a: a.astype(np.float32)),
    Row("v_cvt_f32_ubyte2_e32 d, a", "f32 u32", lambda a: (a >> 16 & 255).astype(np.float32)),
    Row("v_cvt_f32_f16_e32 d, a", "f32 f16", lambda a: a.astype(np.float32), CDNA),
    Row("v_cvt_f16_f32_e32 d, a", "f16 f32", lambda a: a.astype(np.float16), CDNA),
    Row("v_add_f64 d2, a2, b2", "f64 f64 f64", lambda a, b: a + b, CDNA),
    Row("v_fma_f64 d2, a2, -b2, 1.0", "f64 f64 f64", lambda a, b: 1.0 - a * b, CDNA, 1e-15),
    # Halves: gfx9 clears the upper half of what it writes.
    Row("v_add_f16_e32 d, a, b", "f16 f16 f16", lambda a, b: a + b, CDNA),
    Row("v_fma_f16 d, a, b, c", "f16 f16 f16 f16", lambda a, b, c: (wide(a) * wide(b) + wide(c)).astype(np.float16), CDNA,
        upper=0x5a5a),
    Row("v_pk_mul_lo_u16 d, a, b", "u32 u32 u32",
        lambda a, b: ((a & 0xffff) * (b & 0xffff) & 0xffff) | (((a >> 16) * (b >> 16) & 0xffff) << 16)),
    Row("v_pk_add_u16 d, a, b op_sel:[1,0] op_sel_hi:[0,1]", "u32 u32 u32",
        lambda a, b: ((a >> 16) + b & 0xffff) | (((a & 0xffff) + (b >> 16) & 0xffff) << 16)),
    # Integers.
    Row("v_lshl_add_u32 d, a, b, c", "u32 u32 u32 u32", lambda a, b, c: (a << (b & 31)) + c),
    Row("v_mul_hi_u32 d, a, b", "u32 u32 u32", lambda a, b: (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32)),
    Row("v_mul_lo_u32 d, a, b", "u32 u32 u32", lambda a, b: a * b),
    Row("v_ashrrev_i32_e32 d, a, b", "i32 u32 i32", lambda a, b: b >> (a & 31).astype(np.int32)),
    Row("v_bfe_u32 d, a, b, c", "u32 u32 u32 u32", lambda a, b, c: (a >> (b & 31)) & ((np.uint32(1) << (c & 31)) - 1)),
    Row("v_bfe_i32 d, a, b, c", "i32 i32 u32 u32", bfe_signed),
    Row("v_perm_b32 d, a, b, c", "u32 u32 u32 u32", perm),
    Row("v_bcnt_u32_b32 d, a, b", "u32 u32 u32", lambda a, b: popcount(a) + b),
    Row("v_ffbh_u32_e32 d, a", "u32 u32",
        lambda a: np.array([32 - int(x).bit_length() if x else 2**32 - 1 for x in a], np.uint32), CDNA),
    Row("v_med3_i32 d, a, b, c", "i32 i32 i32 i32", lambda a, b, c: np.sort(np.stack([a, b, c]), 0)[1]),
    Row("v_alignbit_b32 d, a, b, 9", "u32 u32 u32",
        lambda a, b: ((a.astype(np.uint64) << np.uint64(32) | b) >> np.uint64(9)).astype(np.uint32), CDNA),
    Row("v_sub_u32_e64 d, a, b clamp", "u32 u32 u32", lambda a, b: np.where(a < b, 0, a - b).astype(np.uint32), CDNA),
    Row("v_add_i32 d, a, b clamp", "i32 i32 i32",
        lambda a, b: np.clip(a.astype(np.int64) + b, -2**31, 2**31 - 1).astype(np.int32), CDNA),
    Row("v_lshlrev_b64 d2, a, b2", "u64 u32 u64", lambda a, b: b << (a & 63).astype(np.uint64), CDNA + ("gfx1100",)),
    Row("v_add_co_u32_e32 d, vcc, a, b\nv_addc_co_u32_e32 d, vcc, a, b, vcc", "u32 u32 u32",
        lambda a, b: a + b + ((a.astype(np.uint64) + b) >> np.uint64(32)).astype(np.uint32), CDNA),
    Row("v_mad_u64_u32 d2, vcc, a, b, c2", "u64 u32 u32 u64", lambda a, b, c: a.astype(np.uint64) * b + c, CDNA),
    # Comparisons and selection.
    Row("v_cmp_lt_f32_e32 vcc, a, b\nv_cndmask_b32_e32 d, a, b, vcc", "u32 f32 f32",
        lambda a, b: np.where(a < b, b, a).view(np.uint32), CDNA),
    Row("v_cmp_nlg_f32_e32 vcc, a, b\nv_cndmask_b32_e64 d, 0, 1, vcc", "u32 f32 f32",
        lambda a, b: (~((a < b) | (a > b))).astype(np.uint32), CDNA),
    Row("v_cmp_gt_i32_e32 vcc, a, b\nv_cndmask_b32_e64 d, 5, 6, vcc", "u32 i32 i32",
        lambda a, b: np.where(a > b, 6, 5).astype(np.uint32), CDNA),
    # Parts of registers.
    Row("v_add_u32_sdwa d, a, b dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:WORD_1", "u32 u32 u32",
        lambda a, b: (a >> 24) + (b >> 16), CDNA),
    Row("v_mov_b32_sdwa d, sext(a) dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_1", "u32 u32",
        lambda a: ((a >> 8).astype(np.int8).astype(np.int32).astype(np.uint32) & 0xffff) << 16, CDNA),
]


@dataclass
class Wrong:
    """A body that must end in a fault whose text has `message`."""
    name: str
    body: str
    message: str
    chips: tuple
    # Of the kernel.
    directive: str = ""


LOAD = {"cdna": "global_load_dword v2, v0, s[0:1]", "rdna": "global_load_b32 v2, v0, s[0:1]"}
WMMA = "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[24:31], v[8:15]"
WRONG = [
    Wrong("read_before_wait", LOAD["cdna"] + "\nv_add_u32_e32 v8, v2, v2", "is the destination of", CDNA),
    Wrong("read_before_wait", LOAD["rdna"] + "\nv_add_nc_u32_e32 v8, v2, v2", "is the destination of", RDNA),
    Wrong("write_before_wait", LOAD["cdna"] + "\nv_mov_b32_e32 v2, 0", "is written", CDNA),
    Wrong("wait_too_weak", LOAD["cdna"] + "\n" + LOAD["cdna"].replace("v2", "v3") +
          "\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v8, v2, v3", "before v3 is read", CDNA),
    Wrong("scalar_before_wait", "s_load_dword s8, s[0:1], 0x0\ns_add_u32 s9, s8, 1", "before s8 is read", CDNA),
    Wrong("scalar_out_of_order", "s_load_dword s8, s[0:1], 0x0\ns_load_dword s9, s[0:1], 0x4\ns_waitcnt lgkmcnt(1)\n"
          "s_add_u32 s9, s8, 1", "before s8 is read", CDNA),
    Wrong("matrix_too_early", "v_mfma_f32_4x4x1f32 v[8:11], v2, v4, v[8:11]\nv_add_f32_e32 v8, v8, v8",
          "wait states", ("gfx90a",)),
    Wrong("matrix_too_early", "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\ns_nop 5\n"
          "v_add_f32_e32 v8, v8, v8", "expects 7 wait states", ("gfx942",)),
    # As LLVM has it: gfx950 is a state later than gfx942, but for products of two passes.
    Wrong("matrix_too_early", "v_mfma_f32_16x16x32_f16 v[8:11], v[16:19], v[20:23], v[8:11]\ns_nop 6\n"
          "v_add_f32_e32 v8, v8, v8", "expects 8 wait states", ("gfx950",)),
    Wrong("matrix_of_bytes_too_early", "v_mfma_i32_16x16x64_i8 v[8:11], v[16:19], v[20:23], v[8:11]\ns_nop 6\n"
          "v_mfma_f32_4x4x4_16b_f16 v[24:27], v[8:9], v[12:13], v[24:27]", "expects 8 wait states", ("gfx950",)),
    Wrong("matrix_sum_overlaps", "v_mfma_f32_16x16x32_f16 v[8:11], v[16:19], v[20:23], v[8:11]\ns_nop 4\n"
          "v_mfma_f32_16x16x32_f16 v[12:15], v[16:19], v[20:23], v[10:13]", "expects 6 wait states", ("gfx950",)),
    Wrong("small_matrix_too_early", "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[4:5], v[8:11]\ns_nop 3\n"
          "v_add_f32_e32 v8, v8, v8", "expects 5 wait states", ("gfx942", "gfx950")),
    Wrong("mask_too_early", "v_cmp_gt_i32_e32 vcc, v2, v4\nv_cndmask_b32_e64 v8, 5, 6, vcc", "wait states",
          ("gfx942", "gfx950")),
    Wrong("permutation_too_early", "v_mov_b32_e32 v2, v4\nv_mov_b32_dpp v8, v2 quad_perm:[1,0,3,2] row_mask:0xf "
          "bank_mask:0xf", "expects 2 wait states", CDNA),
    Wrong("misaligned", "v_add_u32_e32 v0, 2, v0\nglobal_atomic_add v0, v2, s[2:3]", "multiple of 4", CDNA),
    Wrong("scalar_misaligned", "s_add_u32 s2, s2, 2\ns_load_dword s8, s[2:3], 0x0", "multiple of 4", CDNA),
    Wrong("out_of_bounds", "v_add_u32_e32 v0, 0x100000, v0\n" + LOAD["cdna"] + "\ns_waitcnt vmcnt(0)",
          "bytes of global memory", CDNA),
    Wrong("lds_not_written", "ds_read_b32 v8, v0\ns_waitcnt lgkmcnt(0)", "that was not", CDNA),
    Wrong("lds_out_of_bounds", "v_add_u32_e32 v0, 0x10000, v0\nds_read_b32 v8, v0\ns_waitcnt lgkmcnt(0)",
          "bytes of shared memory", CDNA),
    Wrong("store_overwritten", "s_mov_b64 exec, 1\nglobal_store_dwordx4 v0, v[2:5], s[2:3]\nv_mov_b32_e32 v3, 0",
          "over what it stores", CDNA),
    Wrong("m0_too_early", "s_mov_b32 m0, 0\nglobal_load_lds_dword v0, s[0:1]", "expects 1 wait states", ("gfx942", "gfx950")),
    Wrong("exchange_too_early", "v_mov_b32_e32 v2, v4\nv_permlane32_swap_b32 v2, v3", "expects 2 wait states", ("gfx950",)),
    Wrong("lane_too_early", "v_mov_b32_e32 v2, v4\nv_readlane_b32 s8, v2, 1", "expects 1 wait states", ("gfx942", "gfx950")),
    Wrong("lane_number_too_early", "v_readfirstlane_b32 s8, v2\ns_nop 2\nv_readlane_b32 s9, v4, s8", "expects 4 wait states", CDNA),
    Wrong("special_too_early", "v_exp_f32_e32 v8, v2\nv_mov_b32_e32 v9, v2\nv_add_f32_e32 v8, v8, v8", "but got 1", ("gfx1100",)),
    Wrong("matrix_after_matrix", WMMA + "\nv_wmma_f32_16x16x16_f16 v[32:39], v[8:15], v[24:31], v[32:39]",
          "a matrix product of its result", ("gfx1100",)),
    Wrong("invalidation_counts", LOAD["rdna"] + "\nglobal_inv scope:SCOPE_SE\ns_wait_loadcnt 0x2\nv_add_nc_u32_e32 v8, v2, v2",
          "before v2 is read", ("gfx1201",)),
    Wrong("clamping_conversions", "s_nop 0", "no FP16_OVFL", ALL, ".amdhsa_fp16_overflow 1"),
    Wrong("unknown", "s_ttracedata", "s_ttracedata", ALL),
]
# What is right where the rows above are wrong.
RIGHT = [
    Wrong("in_order", LOAD["cdna"] + "\n" + LOAD["cdna"].replace("v2", "v3") +
          "\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v8, v2, v2\ns_waitcnt vmcnt(0)\nv_add_u32_e32 v8, v3, v2", "", CDNA),
    Wrong("matrix_late_enough", "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\ns_nop 6\n"
          "v_add_f32_e32 v8, v8, v8", "", ("gfx942",)),
    Wrong("matrix_late_enough", "v_mfma_f32_16x16x32_f16 v[8:11], v[16:19], v[20:23], v[8:11]\ns_nop 7\n"
          "v_add_f32_e32 v8, v8, v8", "", ("gfx950",)),
    Wrong("matrix_sum_overlaps", "v_mfma_f32_16x16x32_f16 v[8:11], v[16:19], v[20:23], v[8:11]\ns_nop 5\n"
          "v_mfma_f32_16x16x32_f16 v[12:15], v[16:19], v[20:23], v[10:13]\ns_nop 7", "", ("gfx950",)),
    Wrong("small_matrix_late_enough", "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[4:5], v[8:11]\ns_nop 4\n"
          "v_add_f32_e32 v8, v8, v8", "", ("gfx942", "gfx950")),
    Wrong("matrix_sum_goes_on", "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\n"
          "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\ns_nop 7\nv_mov_b32_e32 v8, v9", "", ("gfx942",)),
    Wrong("lanes_in_order", "v_writelane_b32 v8, s0, 1\nv_writelane_b32 v8, s1, 2", "", CDNA),
    Wrong("lane_number_of_long_ago", "v_readfirstlane_b32 s8, v2\ns_and_b32 s8, s8, 31\ns_nop 2\nv_readlane_b32 s9, v4, s8", "", CDNA),
    # What it writes is no number of a lane.
    Wrong("lane_written", "v_readfirstlane_b32 s8, v2\ns_nop 1\nv_writelane_b32 v8, s8, 4", "", CDNA),
    Wrong("invalidation_counts", LOAD["rdna"] + "\nglobal_inv scope:SCOPE_SE\ns_wait_loadcnt 0x1\nv_add_nc_u32_e32 v8, v2, v2\n"
          "s_wait_loadcnt 0x0", "", ("gfx1201",)),
    Wrong("store_done", "s_mov_b64 exec, 1\nglobal_store_dwordx4 v0, v[2:5], s[2:3]\ns_nop 1\nv_mov_b32_e32 v3, 0", "", CDNA),
    Wrong("special_waited_for", "v_exp_f32_e32 v8, v2\ns_waitcnt_depctr 0xfff\nv_add_f32_e32 v8, v8, v8", "", ("gfx1100",)),
    Wrong("special_long_ago", "v_exp_f32_e32 v8, v2\n" + 6 * "v_mov_b32_e32 v9, v2\n" + "v_add_f32_e32 v8, v8, v8", "", ("gfx1100",)),
    Wrong("matrix_apart", WMMA + "\nv_nop\nv_wmma_f32_16x16x16_f16 v[32:39], v[24:31], v[24:31], v[8:15]", "", ("gfx1100",)),
]

SYNTAX = {
    "gfx9": {"args": "s_load_dwordx4 s[0:3], s[0:1], 0x0", "wait_args": "s_waitcnt lgkmcnt(0)", "wait": "s_waitcnt vmcnt(0)",
             "load": "global_load_dwordx2", "store": "global_store_dwordx2"},
    "gfx11": {"args": "s_load_b128 s[0:3], s[0:1], 0x0", "wait_args": "s_waitcnt lgkmcnt(0)", "wait": "s_waitcnt vmcnt(0)",
              "load": "global_load_b64", "store": "global_store_b64"},
    "gfx12": {"args": "s_load_b128 s[0:3], s[0:1], 0x0", "wait_args": "s_wait_kmcnt 0x0", "wait": "s_wait_loadcnt 0x0",
              "load": "global_load_b64", "store": "global_store_b64"},
}


def registers(text):
    """d, a, b, c (d2, ... for two registers) as registers."""
    places = {"d": 8, "a": 2, "b": 4, "c": 6}
    out = []
    for line in text.split("\n"):
        name, _, rest = line.partition(" ")
        for letter, first in places.items():
            for suffix, register in (("2", f"v[{first}:{first + 1}]"), ("", f"v{first}")):
                word = letter + suffix
                parts = []
                for operand in rest.split(","):
                    stripped = operand.strip()
                    head = stripped.split(" ")[0]
                    if head in (word, "-" + word, f"|{word}|", f"-|{word}|", f"sext({word})"):
                        operand = operand.replace(word, register, 1)
                    parts.append(operand)
                rest = ",".join(parts)
        out.append(f"{name} {rest}")
    # Wait states between a mask and its use.
    return "\n  s_nop 1\n  ".join(out)


def kernel(name, body, chip, directive=""):
    s = SYNTAX["gfx9" if chip in CDNA else chip[:5]]
    wave32 = CHIPS[chip] == 32
    return f"""
.globl {name}
.p2align 8
.type {name},@function
{name}:
  {s['args']}
  v_lshlrev_b32_e32 v0, 3, v0
  {s['wait_args']}
  {s['load']} v[2:3], v0, s[0:1]
  {s['load']} v[4:5], v0, s[0:1] offset:512
  {s['load']} v[6:7], v0, s[0:1] offset:1024
  {s['load']} v[8:9], v0, s[0:1] offset:1536
  {s['load']} v[10:11], v0, s[0:1] offset:1536
  {s['wait']}
  {body}
  s_nop 15
  {s['store']} v0, v[8:9], s[2:3]
  s_endpgm
.Lend_{name}:
.size {name}, .Lend_{name}-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 16
  .amdhsa_group_segment_fixed_size 1024
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 32
  {directive}
  {'.amdhsa_accum_offset 32' if chip in CDNA else '.amdhsa_wavefront_size32 1'}
.end_amdhsa_kernel
.text
""", f"""
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: {32 if wave32 else 64}
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 64
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
"""


def module_of(bodies, chip, directives=None):
    pieces = [kernel(name, body, chip, (directives or {}).get(name, "")) for name, body in bodies.items()]
    return (f'.amdgcn_target "amdgcn-amd-amdhsa--{chip}"\n.amdhsa_code_object_version 6\n.text\n' +
            "".join(code for code, _ in pieces) +
            ".amdgpu_metadata\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--" + chip +
            "\namdhsa.kernels:" + "".join(data for _, data in pieces) + ".end_amdgpu_metadata\n")


def lanes(values):
    """One value per lane as two words."""
    out = np.zeros((64, 2), np.uint32)
    raw = np.ascontiguousarray(values)
    if raw.dtype.itemsize == 8:
        out[:] = raw.view(np.uint32).reshape(64, 2)
    else:
        out[:, 0] = raw.view({2: np.uint16, 4: np.uint32}[raw.dtype.itemsize])
    return out


def check_row(runtime, module, name, row, wave):
    destination, *sources = row.types.split()
    values = [spread(FORMATS[t][1], FORMATS[t][0], step) for t, step in zip(sources, (1, 7, 5))]
    blocks = [lanes(v) for v in values]
    while len(blocks) < 3:
        blocks.append(np.zeros((64, 2), np.uint32))
    blocks.append(np.full((64, 2), 0x5a5a5a5a, np.uint32))
    out = launch(runtime, module, name, np.stack(blocks), wave)
    dtype = np.dtype(FORMATS[destination][0])
    want = np.asarray(row.expected(*values)).astype(dtype)[:wave]
    words = out[:wave]
    if dtype.itemsize == 8:
        got = np.ascontiguousarray(words).view(dtype).reshape(-1)
    else:
        got = words[:, 0].astype(np.uint16).view(dtype) if dtype.itemsize == 2 else words[:, 0].view(dtype)
        if dtype.itemsize == 2 and (words[:, 0] >> 16 != row.upper).any():
            raise AssertionError(f"expects an upper half of {row.upper:#x}")
    if dtype.kind == "f":
        bad = ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
        if row.tolerance:
            bad &= ~(np.abs(wide(got) - wide(want)) <= row.tolerance * np.abs(wide(want)))
    else:
        bad = got != want
    if row.nans:
        parts = [x.reshape(-1, 1).view(np.uint32 if row.nans == 2 else np.uint16) for x in (got, want)]
        infinity = np.uint32(0xff000000) if row.nans == 2 else np.uint16(2 * row.nans)
        nan = [x * x.dtype.type(2) > infinity for x in parts]
        bad = ((parts[0] != parts[1]) & ~(nan[0] & nan[1])).any(1)
    if bad.any():
        i = int(np.argmax(bad))
        raise AssertionError(f"lane {i}: expects {want[i]!r} of {[v[i] for v in values]}, but got {got[i]!r}")


def launch(runtime, module, name, inputs, wave):
    function = runtime.function(module, name)
    pointers = [runtime.upload(np.ascontiguousarray(inputs)), runtime.upload(np.zeros((64, 2), np.uint32))]
    runtime.launch(function, (1,), (wave,), pointers)
    return runtime.download(pointers[1], np.zeros((64, 2), np.uint32))


def run(runtime, chip, folder):
    """All rows of a chip: how many passed and failed."""
    passed = failed = 0
    rows = {f"row{i}": row for i, row in enumerate(ROWS) if chip in row.chips}
    wrong = {f"wrong_{w.name}": w for w in WRONG if chip in w.chips}
    right = {f"right_{w.name}": w for w in RIGHT if chip in w.chips}
    bodies = {name: registers(row.text) for name, row in rows.items()}
    bodies.update({name: w.body.replace("\n", "\n  ") for name, w in {**wrong, **right}.items()})
    path = Path(folder) / f"vectors-{chip}.hsaco"
    directives = {name: w.directive for name, w in wrong.items()}
    assemble(module_of(bodies, chip, directives), chip, path)
    inputs = np.zeros((4, 64, 2), np.uint32)

    def fresh():
        runtime.reset()
        return runtime.load(path)
    runtime.use(chip)
    module = fresh()
    for name in bodies:
        try:
            if name in rows:
                check_row(runtime, module, name, rows[name], CHIPS[chip])
            elif name in right:
                launch(runtime, module, name, inputs, CHIPS[chip])
            else:
                expect_fault(runtime, module, name, wrong[name].message, inputs, CHIPS[chip])
                module = fresh()
            passed += 1
        except (AssertionError, RuntimeError) as error:
            print(f"FAIL {chip} {rows[name].text if name in rows else name!r}: {error}")
            failed += 1
            module = fresh()
    return passed, failed


def expect_fault(runtime, module, name, message, inputs, wave):
    try:
        launch(runtime, module, name, inputs, wave)
    except RuntimeError as error:
        if message not in str(error):
            raise AssertionError(f"expects a fault with `{message}`, but got: {error}") from error
    else:
        raise AssertionError(f"expects a fault with `{message}`, but got none")

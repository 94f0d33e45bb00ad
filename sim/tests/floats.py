# Small floating-point formats in NumPy.
"""For the checks of both simulators. Formats are bits of the exponent and of the mantissa, with IEEE's bias."""
import numpy as np


def rounded(x, exponent, mantissa):
    """Codes of the nearest numbers, ties to even; there is no infinity and no NaN: the last code is a number, too."""
    bias = 2 ** (exponent - 1) - 1
    magnitude = np.abs(np.asarray(x, np.float64))
    finite = np.isfinite(magnitude)
    e = np.maximum(np.where(finite & (magnitude > 0), np.frexp(np.where(finite, magnitude, 1))[1] - 1, -9999), 1 - bias)
    codes = np.rint(np.ldexp(magnitude, mantissa - e)) + np.ldexp((e + bias - 1).astype(np.float64), mantissa)
    codes = np.minimum(codes, 2 ** (exponent + mantissa) - 1)
    return np.where(finite, codes, 0).astype(np.int64) | np.signbit(x).astype(np.int64) << (exponent + mantissa)


def decoded(codes, exponent, mantissa):
    """The numbers of codes, none of which is infinity or NaN."""
    codes = np.asarray(codes).astype(np.int64)
    e, fraction = codes >> mantissa & ((1 << exponent) - 1), codes & ((1 << mantissa) - 1)
    bias = 2 ** (exponent - 1) - 1
    value = np.where(e == 0, np.ldexp(fraction.astype(np.float64), 1 - bias - mantissa),
                     np.ldexp((fraction | 1 << mantissa).astype(np.float64), e - bias - mantissa))
    return np.where(codes >> (exponent + mantissa) & 1, -value, value)


def bf16(x):
    codes = np.where(np.isinf(x), 0x7F80 | np.signbit(x).astype(np.int64) << 15, rounded(x, 8, 7))
    return np.where(np.isnan(x), 0x7FFF, codes).astype(np.uint16)


def f16(x):
    with np.errstate(over="ignore", invalid="ignore"):
        codes = np.asarray(x, np.float64).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(x), 0x7FFF, codes).astype(np.uint16)


def fp8(x, exponent, largest):
    """Codes with 8 bits; beyond the code `largest` is that code."""
    codes = rounded(x, exponent, 7 - exponent)
    codes = np.where(np.isinf(x) | ((codes & 127) > largest), largest | (codes & 128), codes)
    return np.where(np.isnan(x), 127, codes).astype(np.uint8)

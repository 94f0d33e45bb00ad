# Numbers that people give, checked before they become text of a module.
import math
import numbers


def integer(value, what, low):
    """`value` as an int of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"expects an integer as {what}, but got {value!r}")
    if value < low:
        raise ValueError(f"expects {what} of at least {low}, but got {value}")
    return int(value)


def number(value, what, low=-math.inf):
    """`value` as a finite float of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"expects a number as {what}, but got {value!r}")
    if not math.isfinite(value) or value < low:
        raise ValueError(f"expects {what} to be a finite number{f' of at least {low}' if low > -math.inf else ''}, "
                         f"but got {value!r}")
    return float(value)

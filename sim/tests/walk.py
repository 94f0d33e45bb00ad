# What walk.h does, and the kernels that call it.
"""For the checks of both simulators."""


def remainder(v, by):
    """As C has it."""
    return abs(v) % by * (1 if v >= 0 else -1)


def walk(code, value):
    """The value after a walk, and its steps."""
    pc = steps = 0
    while pc < len(code):
        steps += 1
        kind = remainder(code[pc] + value, 7)
        if kind == 0:
            value += 3
        elif kind == 1:
            if value > 50:
                return value - pc, steps
            value *= 2
        elif kind == 2:
            i = 0
            while i < remainder(value, 5) and remainder(value + i, 4) != 3:
                value += i * i
                i += 1
        elif kind == 3:
            value ^= 0x15
        elif kind == 4:
            pc += value & 1
        elif kind == 5:
            while value > 100:
                value -= 37
        else:
            return -value, steps
        if kind not in (1, 3) and value > 1000:
            break
        pc += 1
    return value, steps


def both(code, values, group):
    """What the kernel `walks` gives for each value, and the steps of each group of threads."""
    results, totals = [], [0] * (len(values) // group)
    for i, value in enumerate(values):
        steps = 0
        if remainder(value, 3):
            value, steps = walk(code, value)
            if value < 0 and value % 2 == 0:
                value, more = walk(code[3:], -value)
                value, steps = value + 1, steps + more
        elif remainder(value, 5) == 0:
            value, steps = walk(code[1:1 + len(code) // 2], value)
        results.append(value)
        totals[i // group] += steps
    return results, totals

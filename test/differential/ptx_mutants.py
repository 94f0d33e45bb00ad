#!/usr/bin/env python3
# Breaks the PTX of kernels in one place at a time and expects the simulator or the comparison with the oracle to notice.
"""ptx_mutants.py [--build DIR] [--sites N] [--seed S] [--jobs N] [--filter TEXT] [--verbose]

Kernels are those of the differential test (KERNELS below), each with several shapes, and plans of decode steps. A wait, barrier, fence, commit,
arrival or predicate is dropped, an address is shifted by 16 bytes, operands of a matrix instruction are swapped, a bit of
a swizzle is flipped. `--sites` bounds the places of each kind in each kernel, drawn by the seed. What counts says
mutation.py. The last line is `N passed, N failed, N skipped`.
"""
import re
import sys

from mutation import ORDERED_OTHERWISE, Kind, Language, Rule, branches, drop, main

# Small, and together with every part of the kernels: ragged tiles, masks, spans that are merged, codes of several widths,
# tokens that are kept exact.
F16_RUNS = ["ragged 1", "decode 1", "prefill 1", "long 1", "long 2", "ragged 2", "decode 2", "chunks 3"]
CODE_RUNS = ["ragged 1", "prefill 1", "long 1", "long 2", "decode 2", "ragged 3", "chunks 4", "long 5", "decode 6", "decode 7", "decode 8",
             "decode 9"]
KERNELS = [
    ("sm_80", "page=16,dim=128,gqa=4,heads=1", F16_RUNS),
    ("sm_80", "k=int4/channel,v=int4,page=32,dim=64,heads=1,residual=32", CODE_RUNS),
    ("sm_80", "k=int8,v=int8,page=16,dim=64,gqa=8,heads=1,mask=causal/window/sinks", CODE_RUNS),
    ("sm_90a", "page=16,dim=128,gqa=4,heads=1", F16_RUNS),
    ("sm_90a", "k=int4,v=int8/channel,group=64,page=64,dim=64,heads=1", CODE_RUNS),
]
PLANS = [("sm_80", "causal"), ("sm_90a", "per_head")]


def shift_address(line):
    return re.sub(r"\[(%r\w+)(?:\+(-?\d+))?\]", lambda m: f"[{m.group(1)}+{int(m.group(2) or 0) + 16}]", line, count=1)


def swap_registers(group):
    """Exchanges the first two registers of a braced operand (0: the sums, 1: a, 2: b)."""
    def change(text):
        found = list(re.finditer(r"\{([^{}]*)\}", text))
        registers = [r.strip() for r in found[group].group(1).split(",")] if group < len(found) else []
        if len(registers) < 2:
            return text
        registers[0], registers[1] = registers[1], registers[0]
        return text[:found[group].start(1)] + ", ".join(registers) + text[found[group].end(1):]
    return change


def flip_swizzle(line, after):
    """The result of an exclusive or gets the other bit: that of 16 bytes, also where it is scaled afterwards."""
    found = re.match(r"(\s*)xor\.b32\s+(%r\d+), (%r\d+), ([%\w]+);", line)
    if not found:
        return line
    indent, to, a, b = found.groups()
    scaled = re.search(rf"shl\.b32\s+%r\d+, {to}, ([1-4]);", after[:4000])
    return f"{indent}xor.b32 {to}, {a}, {b};\n{indent}xor.b32 {to}, {to}, {16 >> int(scaled.group(1) if scaled else 0)};"


KINDS = [
    Kind("drop wait", r"cp\.async\.wait_|wgmma\.wait_group", drop, ordering=True),
    # The wait of a loop that asks again: it is over at once.
    Kind("drop wait", r"mbarrier\.try_wait",
         lambda text: re.sub(r"mbarrier\.try_wait\S*\s+(\w+|%p\d+),[^;]*;", r"setp.eq.u32 \1, 0, 0;", text), ordering=True),
    Kind("drop barrier", r"\b(bar|barrier)\.(cta\.|warp\.)?sync", drop, ordering=True),
    Kind("drop fence", r"\bfence\.|wgmma\.fence|\bmembar\.", drop, ordering=True),
    Kind("drop commit", r"cp\.async\.commit_group|wgmma\.commit_group", drop, ordering=True),
    Kind("drop arrival", r"mbarrier\.arrive", drop, ordering=True),
    Kind("drop copy", r"cp\.async\.bulk\.tensor", drop, ordering=True),
    Kind("other box", r"cp\.async\.bulk\.tensor", lambda text: re.sub(r"\{zero, zero, zero, \w+, block(\d+)\}",
         lambda m: m.group(0).replace(f"block{m.group(1)}", f"block{1 if m.group(1) == '0' else 0}"), text)),
    Kind("fewer bytes", r"mbarrier\.arrive\.expect_tx",
         lambda text: re.sub(r"(\d+);", lambda m: f"{int(m.group(1)) - 16};", text), ordering=True),
    Kind("drop predicate", r"^\s*@!?%p\d+ bra", lambda line: re.sub(r"@!?%p\d+ ", "", line)),
    Kind("never branch", r"^\s*@!?%p\d+ bra", drop),
    Kind("shift address", r"\b(ld|st)\.(shared|global)|ldmatrix|cp\.async\.c[ag]", shift_address),
    Kind("swap a", r"\bmma\.sync", swap_registers(1)),
    Kind("swap b", r"\bmma\.sync", swap_registers(2)),
    Kind("swap sums", r"wgmma\.mma_async", swap_registers(0)),
    Kind("shift descriptor", r"add\.(s64|u32)\s+(a|b|low), [%\w]+, \d+;",
         lambda line: re.sub(r"(\d+);", lambda m: f"{int(m.group(1)) + 1};", line)),
    Kind("swap a", r"wgmma\.mma_async", swap_registers(1)),
    Kind("swap ldmatrix", r"ldmatrix", swap_registers(0)),
    # An exclusive or with 1 is about lanes or truth values.
    Kind("flip swizzle", r"xor\.b32\s+%r\d+, %r\d+, (?!-?1;)[%\w]+;", flip_swizzle, looks_ahead=True),
]

RULES = [
    branches(r"never branch|drop predicate"),
    ORDERED_OTHERWISE,
    Rule(r"drop wait|drop commit", r"cp\.async",
         "no copy that anything touches later is in flight: reading or writing its destination before the wait is an error"),
    Rule(r"drop fence", r"fence\.proxy|wgmma\.fence",
         "another such fence of the same threads stands before the use: a use without one is an error"),
    Rule(r"drop arrival", r"", "nobody waits for that phase: a wait for it would never end"),
]


def instructions(text):
    """(first line, number of lines, text) of the instructions of all kernels; lines from 0."""
    lines = text.splitlines()
    first = None
    for i, line in enumerate(lines):
        line = line.split("//")[0].strip()
        if first is None and (not line or line.startswith((".", "$", "{", "}", ")")) or line.endswith(":")):
            continue
        first = i if first is None else first
        if line.endswith(";"):
            yield first, i + 1 - first, "\n".join(lines[first:i + 1])
            first = None


def executed(text, _target, reports, _folder):
    lines = {entry["line"] for report in reports for entry in report.get("instructions", []) if entry["issued"]}
    return [entry for entry in instructions(text) if entry[0] + 1 in lines]


if __name__ == "__main__":
    sys.exit(main(Language("ptx_mutants.py", KINDS, RULES, KERNELS, PLANS, executed, lambda text, _, path: path.write_text(text))))

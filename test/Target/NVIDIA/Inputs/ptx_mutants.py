#!/usr/bin/env python3
# Breaks the PTX of attention kernels in one place at a time and expects the simulator or the comparison to notice.
"""ptx_mutants.py [--build DIR] [--target sm_80] [--sites N] [--seed S] [--verbose] [case...]

Cases are those of check_attention.py; those that have the same kernel are tried together. Each mutant is one instruction
that at least one of them executes: a wait, barrier, fence, commit or predicate is dropped, an address is shifted by 16
bytes, operands of a matrix instruction are swapped, a bit of a swizzle is flipped. It is detected when the simulator
reports an error or results are wrong in one of the cases. `--sites` bounds the places of each kind in each kernel. At
least 95 % must be detected; survivors are listed, docs/testing.md says why they survive. The last line is `N passed, N
failed, N skipped`.
"""
import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_attention

ROOT = Path(__file__).resolve().parents[4]
NEEDED = 0.95
# Small, and together with every part of the loop: ragged tiles, masks, spans that are merged.
DEFAULT = ["decode_ragged", "prefill_ragged", "prefill_long", "window_sinks"]


def shift_address(line):
    return re.sub(r"\[(%r\d+)(?:\+(-?\d+))?\]", lambda m: f"[{m.group(1)}+{int(m.group(2) or 0) + 16}]", line, count=1)


def swap_registers(group):
    """Exchanges the first two registers of a braced operand (0: the sums, 1: a, 2: b)."""
    def change(text):
        found = list(re.finditer(r"\{([^{}]*)\}", text))
        registers = [r.strip() for r in found[group].group(1).split(",")]
        registers[0], registers[1] = registers[1], registers[0]
        return text[:found[group].start(1)] + ", ".join(registers) + text[found[group].end(1):]
    return change


def flip_swizzle(line):
    """The other bit of an exclusive or: its second operand becomes one that differs in the bit of 16 bytes."""
    found = re.match(r"(\s*)xor\.b32\s+(%r\d+), (%r\d+), ([%\w]+);", line)
    if not found:
        return line
    indent, to, a, b = found.groups()
    return f"{indent}xor.b32 {to}, {a}, {b};\n{indent}xor.b32 {to}, {to}, 16;"


ORDERING = ("drop wait", "drop barrier", "drop fence", "drop commit")

# Name, which lines, what becomes of one.
KINDS = [
    # A try that is not made leaves its loop at once.
    ("drop wait", r"cp\.async\.wait_|mbarrier\.try_wait|wgmma\.wait_group",
     lambda line: "setp.eq.u32 over, 0, 0;" if "try_wait" in line else ""),
    ("drop barrier", r"\b(bar|barrier)\.(cta\.)?sync", lambda line: ""),
    ("drop fence", r"\bfence\.|wgmma\.fence|\bmembar\.", lambda line: ""),
    ("drop arrival", r"mbarrier\.arrive", lambda line: ""),
    ("drop commit", r"cp\.async\.commit_group|wgmma\.commit_group", lambda line: ""),
    ("drop predicate", r"^\s*@!?%p\d+ bra", lambda line: re.sub(r"@!?%p\d+ ", "", line)),
    ("never branch", r"^\s*@!?%p\d+ bra", lambda line: ""),
    ("shift address", r"\b(ld|st)\.(shared|global)|ldmatrix|cp\.async\.c[ag]", shift_address),
    ("swap a", r"mma\.sync|wgmma\.mma_async[^{]*\{[^}]*\}, \{", swap_registers(1)),
    ("shift descriptor", r"add\.s64\s+[ab], [ab], \d+;", lambda line: re.sub(r"(\d+);", lambda m: f"{int(m[1]) + 1};", line)),
    ("swap b", r"mma\.sync", swap_registers(2)),
    ("swap ldmatrix", r"ldmatrix", swap_registers(0)),
    ("flip swizzle", r"xor\.b32\s+%r\d+, %r\d+, [%\w]+;", flip_swizzle),
]


def instructions(text, kernel):
    """(first line, number of lines, text) of the instructions of a kernel; lines from 0."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if f".entry {kernel}(" in line)
    begin = next(i for i in range(begin, len(lines)) if lines[i].startswith("{")) + 1
    first, depth = None, 1
    for i in range(begin, len(lines)):
        line = lines[i].strip()
        # Pieces of assembly have scopes of their own.
        depth += (line == "{") - (line == "}")
        if depth == 0:
            return
        if first is None and (line in ("", "{", "}") or line.startswith((".", "//", "$")) or line.endswith(":")):
            continue
        first = i if first is None else first
        if line.split("//")[0].rstrip().endswith(";"):
            yield first, i + 1 - first, "\n".join(lines[first:i + 1])
            first = None


def mutants(text, kernel, executed, sites, seed):
    """(kind, instruction, text) of up to `sites` places of each kind among the executed lines of a kernel, a map from
    lines to how often. What orders accesses is broken in loops: in front of and behind them it orders nothing where no
    span is merged."""
    lines = text.splitlines()
    code = [entry for entry in instructions(text, kernel) if entry[0] + 1 in executed]
    once = executed[code[0][0] + 1]
    for kind, pattern, change in KINDS:
        places = [(first, count, old) for first, count, old in code if re.search(pattern, old) and change(old) != old
                  and (kind not in ORDERING or executed[first + 1] > once)]
        for first, count, old in sorted(random.Random(f"{seed} {kind}").sample(places, min(sites, len(places)))):
            changed = lines[:first] + [change(old)] + lines[first + count:]
            yield kind, f"line {first + 1}: {' '.join(old.split())}", "\n".join(changed) + "\n"


def detected(case, execute, path, folder):
    """How a mutant is noticed; empty when it is not."""
    try:
        out, lse = execute(path)
        check_attention.compare(case, out, lse, folder, quiet=True)
    except SystemExit as problem:
        text = str(problem)
        error = re.search(r"expects .*", text[text.find(".npy"):] if "kvc-sim" in text else text)
        return error.group(0)[:100] if error else text[:100]
    except subprocess.TimeoutExpired:
        return "does not end"
    return ""


def main():
    parser = argparse.ArgumentParser(prog="ptx_mutants.py")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    tools = [options.build / "bin" / name for name in ("kvc-compile", "kvc-run", "kvc-sim")]
    caught, survivors = 0, []
    kernels = {}
    for case in check_attention.CASES:
        if case.name in (options.cases or DEFAULT):
            kernels.setdefault(check_attention.module_of(case)[0], []).append(case)
    with tempfile.TemporaryDirectory() as name:
        for cases in kernels.values():
            runs, executed = [], {}
            for case in cases:
                folder = Path(name) / case.name
                execute = check_attention.prepare(case, tools, folder, options.target)
                runs.append((case, execute, folder))
                problem = detected(case, execute, folder / "f.ptx", folder)
                if problem:
                    print(f"{case.name}: the kernel without a mutant is not right: {problem}\n0 passed, 1 failed, 0 skipped")
                    return 1
                for entry in execute.report["instructions"]:
                    if entry["issued"]:
                        executed[entry["line"]] = executed.get(entry["line"], 0) + entry["issued"]
            text = (Path(name) / cases[0].name / "f.ptx").read_text()
            for kind, place, mutant in mutants(text, "attention", executed, options.sites, options.seed):
                path = Path(name) / "mutant.ptx"
                path.write_text(mutant)
                how = next(filter(None, (detected(case, execute, path, folder) for case, execute, folder in runs)), "")
                caught += bool(how)
                if not how:
                    survivors.append(place)
                if options.verbose or not how:
                    print(f"{'/'.join(case.name for case in cases)}: {kind}: {place}: {how or 'SURVIVED'}", flush=True)
    total = caught + len(survivors)
    print(f"{caught} of {total} mutants were detected; expects {NEEDED:.0%}")
    few = caught < NEEDED * total
    print(f"{caught} passed, {len(survivors) if few or not total else 0} failed, 0 skipped")
    return int(few or not total)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# Breaks the PTX of kernels in one place at a time and expects the simulator or the comparison with the oracle to notice.
"""ptx_mutants.py [--build DIR] [--sites N] [--seed S] [--jobs N] [--filter TEXT] [--verbose]

Kernels are those of the differential test (KERNELS below); each runs with several shapes. Each mutant is one instruction
that one of the runs executes: a wait, barrier, fence, commit, arrival or predicate is dropped, an address is shifted by
16 bytes, operands of a matrix instruction are swapped, a bit of a swizzle is flipped. It is detected when the simulator
reports an error or a result is wrong. `--sites` bounds the places of each kind in each kernel, drawn by the seed.

A mutant that is not detected changes nothing when it fits a rule of EQUIVALENT and its results have the same bits as
those of the sound kernel: it is listed with the rule's reason, and counts neither way. Of the others at least 95 % must
be detected; survivors are listed. So that a rule cannot hide a check that does not work, every kind that breaks the order
of accesses must be detected somewhere for each target. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDED = 0.95

# Target, values of the axes, shapes of the runs, each with a seed. Small, and together with every part of the kernels:
# ragged tiles, masks, spans that are merged, codes of several widths, tokens that are kept exact. A mutant that is noticed
# in the first runs does not make the others.
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
GARBAGE = ("nan", "random", "inf16", "inf32")


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


def drop(line):
    return ""


# Name, which lines, what becomes of one.
KINDS = [
    ("drop wait", r"cp\.async\.wait_|wgmma\.wait_group", drop),
    # The wait of a loop that asks again: it is over at once.
    ("drop wait", r"mbarrier\.try_wait",
     lambda text: re.sub(r"mbarrier\.try_wait\S*\s+(\w+|%p\d+),[^;]*;", r"setp.eq.u32 \1, 0, 0;", text)),
    ("drop barrier", r"\b(bar|barrier)\.(cta\.|warp\.)?sync", drop),
    ("drop fence", r"\bfence\.|wgmma\.fence|\bmembar\.", drop),
    ("drop commit", r"cp\.async\.commit_group|wgmma\.commit_group", drop),
    ("drop arrival", r"mbarrier\.arrive", drop),
    ("drop predicate", r"^\s*@!?%p\d+ bra", lambda line: re.sub(r"@!?%p\d+ ", "", line)),
    ("never branch", r"^\s*@!?%p\d+ bra", drop),
    ("shift address", r"\b(ld|st)\.(shared|global)|ldmatrix|cp\.async\.c[ag]", shift_address),
    ("swap a", r"\bmma\.sync", swap_registers(1)),
    ("swap b", r"\bmma\.sync", swap_registers(2)),
    ("swap sums", r"wgmma\.mma_async", swap_registers(0)),
    ("shift descriptor", r"add\.(s64|u32)\s+(a|b|low), [%\w]+, \d+;",
     lambda line: re.sub(r"(\d+);", lambda m: f"{int(m.group(1)) + 1};", line)),
    ("swap a", r"wgmma\.mma_async", swap_registers(1)),
    ("swap ldmatrix", r"ldmatrix", swap_registers(0)),
    # An exclusive or with 1 is about lanes or truth values.
    ("flip swizzle", r"xor\.b32\s+%r\d+, %r\d+, (?!-?1;)[%\w]+;", flip_swizzle),
]
ORDERING = ("drop wait", "drop barrier", "drop fence", "drop commit", "drop arrival")

# Kind, which instructions, why a mutant of these whose results have the same bits changes nothing.
EQUIVALENT = [
    (r"never branch|drop predicate", r"",
     "a branch around a faster way to the same numbers (whole tiles without bounds, tiles without masks, sums that need no "
     "rescaling), or around a loop that runs no time"),
    (r"drop barrier", r"",
     "the order follows from other barriers: the race check follows all accesses of these runs and finds none"),
    (r"drop wait|drop commit", r"cp\.async",
     "no copy that anything touches later is in flight: reading or writing its destination before the wait is an error"),
    (r"drop fence", r"fence\.proxy|wgmma\.fence",
     "another such fence of the same threads stands before the use: a use without one is an error"),
    (r"drop arrival", r"", "nobody waits for that phase: a wait for it would never end"),
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


def changed(change, old, lines, end):
    """The text that a kind makes of an instruction; some kinds look at the lines behind it."""
    return change(old, "\n".join(lines[end:end + 100])) if change is flip_swizzle else change(old)


def mutants(text, executed, sites, seed):
    """(kind, instruction, text) of up to `sites` places of each kind among the executed lines."""
    lines = text.splitlines()
    code = [entry for entry in instructions(text) if entry[0] + 1 in executed]
    for number, (kind, pattern, change) in enumerate(KINDS):
        places = [(first, count, old) for first, count, old in code if re.search(pattern, old)
                  and changed(change, old, lines, first + count) != old]
        for first, count, old in sorted(random.Random(f"{seed} {number}").sample(places, min(sites * (3 if kind in ORDERING else 1), len(places)))):
            mutant = lines[:first] + [changed(change, old, lines, first + count)] + lines[first + count:]
            yield kind, f"line {first + 1}: {' '.join(old.split())[:100]}", "\n".join(mutant) + "\n"


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def try_kernel(tool, target, values, shapes, options, folder):
    """Results of all mutants of a kernel: (kind, place, what came of it)."""
    where = ["--device", f"sim:{target}", "--target", target, "--jobs", options.jobs]
    cases = [f"{values},shape={shape.split()[0]},garbage={GARBAGE[number % len(GARBAGE)]},inputs=finite,seed={shape.split()[1]}"
             for number, shape in enumerate(shapes)]
    report, executed = folder / "report", set()
    for case in cases:
        status, out, err = run([tool, "--case", case, "--write-assembly", folder / "sound.ptx", *where],
                               env={**os.environ, "KVCSIM_REPORT": str(report), "KVCSIM_INSTRUCTIONS": "on"})
        if status:
            raise SystemExit(f"{target} {case}: the kernel without a mutant is not right: {out[-300:]}{err[-300:]}\n"
                             "0 passed, 1 failed, 0 skipped")
    for line in report.read_text().splitlines():
        executed |= {entry["line"] for entry in json.loads(line).get("instructions", []) if entry["issued"]}
    text = (folder / "sound.ptx").read_text()
    texts = folder / "texts"
    texts.mkdir()
    (texts / "sound").write_text(text)
    places = []
    for kind, place, mutant in mutants(text, executed, options.sites, options.seed):
        (texts / f"{len(places):04}").write_text(mutant)
        places.append((kind, place))
    status, out, err = run([tool, "--case", ";".join(cases), "--assemblies", texts, *where])
    results = dict(line.split("\t", 1) for line in out.splitlines())
    if status or not results.get("sound", "").startswith("PASS") or len(results) != len(places) + 1:
        raise SystemExit(f"{target} {values}: {err[-500:]}{results.get('sound')}\n0 passed, 1 failed, 0 skipped")
    return [(kind, place, results[f"{number:04}"], results[f"{number:04}"] == results["sound"])
            for number, (kind, place) in enumerate(places)]


def main():
    parser = argparse.ArgumentParser(prog="ptx_mutants.py")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--sites", type=int, default=20 if os.environ.get("KVC_LONG_TESTS") else 4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--filter", default="", help="only kernels with this in their target and values")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    caught, equal, survivors = 0, 0, 0
    seen = {}
    for target, values, shapes in KERNELS:
        if options.filter not in f"{target} {values}":
            continue
        print(f"== {target} {values}: {', '.join(shapes)}", flush=True)
        begin = time.monotonic()
        count = 0
        with tempfile.TemporaryDirectory() as name:
            for kind, place, result, same in try_kernel(options.build / "bin" / "kvc-differential", target, values, shapes,
                                                        options, Path(name)):
                count += 1
                reason = next((why for kinds, instruction, why in EQUIVALENT
                               if same and re.fullmatch(kinds, kind) and re.search(instruction, place)), "")
                caught += not result.startswith("PASS")
                if kind in ORDERING:
                    seen[target, kind] = seen.get((target, kind), False) or not result.startswith("PASS")
                equal += bool(reason)
                survivors += result.startswith("PASS") and not reason
                if result.startswith("PASS"):
                    print(f"{kind}: {place}: {'EQUIVALENT: ' + reason if reason else 'SURVIVED, other bits' if not same else 'SURVIVED'}",
                          flush=True)
                elif options.verbose:
                    print(f"{kind}: {place}: {result[5:200]}", flush=True)
        print(f"{count} mutants, {time.monotonic() - begin:.1f} s", flush=True)
    total = caught + survivors
    # A single kernel may have none that matters.
    blind = [f"{kind} ({target})" for (target, kind), noticed in seen.items() if not noticed and not options.filter]
    if blind:
        print(f"expects every kind to be detected somewhere, but got none of: {', '.join(blind)}")
    few = not total or caught < NEEDED * total or bool(blind)
    print(f"{caught} of {total} mutants were detected; expects {NEEDED:.0%}; {equal} more change nothing")
    print(f"{caught} passed, {survivors + len(blind) if few else 0} failed, 0 skipped")
    return int(few)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# Breaks the AMDGCN assembly of kernels in one place at a time and expects the simulator or the comparison with the oracle
# to notice.
"""amd_mutants.py [--build DIR] [--sites N] [--seed S] [--jobs N] [--filter TEXT] [--verbose]

Kernels are those of the differential test (KERNELS below), each with several shapes, and plans of decode steps. How they are broken says
amd_kinds.py: waits, barriers and distances are dropped, masks and choices of lanes, permutations, offsets, operands of
matrix instructions changed. `--sites` bounds the places of each kind in each kernel, drawn by the seed. What counts says
mutation.py. The last line is `N passed, N failed, N skipped`.
"""
import subprocess
import sys

from amd_kinds import KINDS, LLVM, RULES, assemble, instructions
from mutation import Language, main, stop

RUNS = ["ragged 1", "decode 1", "prefill 1", "long 1", "long 2", "ragged 2", "decode 2", "chunks 3"]
KERNELS = [
    ("gfx942", "page=16,dim=128,gqa=4,heads=1", RUNS),
    ("gfx942", "k=int4/channel,v=int4,page=32,dim=64,heads=1,residual=32", RUNS),
    ("gfx1100", "page=16,dim=64,gqa=4,heads=1", RUNS),
    ("gfx1100", "k=int8,v=int8,page=16,dim=64,gqa=8,heads=1,mask=causal/window/sinks", RUNS),
]
PLANS = [("gfx942", "causal"), ("gfx1100", "per_head")]


def executed(text, target, reports, folder):
    """A symbol before each instruction tells its address."""
    lines, marked = text.splitlines(), {number: (kernel, line) for kernel, number, line in instructions(text)}
    assemble("\n".join(f"kvc_line_{number}:\n{line}" if number in marked else line for number, line in enumerate(lines)) + "\n",
             target, folder / "marked")
    symbols = subprocess.run([f"{LLVM}/llvm-nm", str(folder / "marked")], check=True, capture_output=True, text=True).stdout
    addresses = {name: int(address, 16) for address, _, name in (line.split() for line in symbols.splitlines())}
    places = {(kernel, addresses[f"kvc_line_{number}"] - addresses[kernel]): number for number, (kernel, _) in marked.items()}
    known = {kernel for kernel, _ in places}
    ran = set()
    for report in reports:
        for entry in report.get("instructions", []):
            if entry["issued"] and report["kernel"] in known:
                place = places.get((report["kernel"], entry["address"]))
                # Loops are aligned by s_nop that the text does not have.
                if place is None and entry["text"].strip() != "s_nop 0":
                    stop(f"{target}: expects a line for {report['kernel']}+{entry['address']:#x}: {entry['text']}")
                ran.add(place)
    return [(number, 1, line) for number, (_, line) in sorted(marked.items()) if number in ran]


if __name__ == "__main__":
    sys.exit(main(Language("amd_mutants.py", KINDS, RULES, KERNELS, PLANS, executed, assemble, sites=2, long_sites=12)))

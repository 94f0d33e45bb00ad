#!/usr/bin/env python3
# Mutants of the assembly of clang's kernels: does the AMDGCN simulator, or a wrong result, tell them from the original?
"""mutants.py [--library LIBRARY] [--chip CHIP]... [--sites N]

Each mutant changes one line of a kernel: it drops a wait, a barrier, a mask of lanes or an s_nop, or changes the control
of a lane permutation. It is found when its case of check.py fails. At most N sites of each kind in a kernel (default 3).
The last line is `N passed, N failed, N skipped`: found, and not found, which fails when it is more than 5 %.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import check
from hip import CHIPS, CLANG, HERE, ROOT, Runtime, assemble

# Sites where a mutant can be right, and why.
EQUIVALENT = {
    ("sum_lds", "mask"): "all lanes store the same sum",
    ("sum_lds", "barrier"): "the last steps are those of one wave",
    ("histogram", "mask"): "lanes that take a maximum once more",
    ("row_shifts", "nop"): "LLVM keeps a distance to the destination that a permutation leaves as it is",
    ("fp8_round", "mask"): "the last lane's values are whole",
}

KERNEL = re.compile(r"^(\w+):\s+; @\1$")


def assembly_of(chip):
    command = [CLANG, "-x", "hip", f"--offload-arch={chip}", "-nogpulib", "-nogpuinc", "--cuda-device-only", "-O2",
               "-std=c++20", "-S", str(HERE / "kernels.hip"), "-o", "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")


def mutation(line):
    """The kind of a site and what its line becomes; none for other lines."""
    text = line.strip()
    if re.match(r"s_wait(cnt|_\w*cnt)", text) and "vscnt" not in text and "storecnt" not in text:
        return "wait", ""
    if text.startswith(("s_barrier_wait", "s_barrier_signal")):
        return None
    if text == "s_barrier":
        return "barrier", ""
    if text.startswith("s_nop"):
        return "nop", ""
    saved = re.match(r"s_and_saveexec_b(32|64) (\S+), ", text)
    if saved:
        return "mask", f"\ts_mov_b{saved[1]} {saved[2]}, exec{'_lo' if saved[1] == '32' else ''}"
    if "quad_perm:" in text:
        return "permutation", re.sub(r"quad_perm:\[[0-9,]*\]", "quad_perm:[0,0,0,0]", line)
    if re.search(r"row_(shl|shr|ror):", text):
        return "permutation", re.sub(r"(row_(?:shl|shr|ror)):\d+", r"\1:7", line)
    return None


def sites(lines, most):
    """(kernel, kind, line number, new text)"""
    kernel, counts = None, {}
    for number, line in enumerate(lines):
        found = KERNEL.match(line)
        if found:
            kernel = found[1] if found[1] in check.CASES else None
        if line.strip().startswith(".section"):
            kernel = None
        change = mutation(line) if kernel else None
        if change:
            key = kernel, change[0]
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= most:
                yield kernel, change[0], number, change[1]


def main():
    parser = argparse.ArgumentParser(prog="mutants.py", description="Mutants of kernels on the AMDGCN simulator.")
    parser.add_argument("--library", default=str(ROOT / "build/lib/libkvcsim_hip.so"))
    parser.add_argument("--chip", action="append", choices=CHIPS)
    parser.add_argument("--sites", type=int, default=3)
    options = parser.parse_args()
    np.seterr(all="ignore")
    runtime = Runtime(options.library)
    found, missed, equivalent = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for chip in options.chip or ("gfx942", "gfx1100"):
            runtime.use(chip)
            lines = assembly_of(chip)
            for kernel, kind, number, text in sites(lines, options.sites):
                function, chips = check.CASES[kernel]
                if chip not in chips:
                    continue
                mutant = [*lines[:number], text, *lines[number + 1:]]
                module = runtime.load(assemble("\n".join(mutant), chip, folder, "mutant"))
                try:
                    function(check.Run(runtime, module, chip))
                    if (kernel, kind) in EQUIVALENT:
                        equivalent += 1
                        continue
                    missed += 1
                    print(f"not found: {chip} {kernel}: {kind}: {lines[number].strip()}", flush=True)
                except (AssertionError, RuntimeError):
                    found += 1
                finally:
                    runtime.reset()
                    runtime.use(chip)
                    Path(folder, f"mutant-{chip}.hsaco").unlink()
    print(f"{equivalent} mutants that can be right are not counted")
    print(f"{100 * found / max(found + missed, 1):.1f} % of {found + missed} mutants found")
    enough = found >= 0.95 * (found + missed) and found > 0
    print(f"{found} passed, {0 if enough else missed} failed, {missed if enough else 0} skipped")
    return not enough


if __name__ == "__main__":
    sys.exit(main())

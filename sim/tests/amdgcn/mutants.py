#!/usr/bin/env python3
# Mutants of the assembly of clang's kernels: does the AMDGCN simulator, or a wrong result, tell them from the original?
"""mutants.py [--library LIBRARY] [--chip CHIP]... [--sites N] [--seed S] [--verbose]

Each mutant changes one instruction of a kernel as test/differential/amd_kinds.py says. It is found when its case of
check.py fails. At most N places of each kind in a kernel (default 1; 3 in the long version). What counts says
test/differential/mutation.py. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import algorithms  # noqa: F401 (adds its cases)
import kernels  # noqa: F401 (adds its cases)
from hip import CASES, CHIPS, CLANG, HERE, HIP_OPTIONS, ROOT, Run, Runtime
# In test/differential, which hip.py adds to the path.
from amd_kinds import KINDS, RULES, assemble, instructions
from mutation import Rule, Tally, mutants

# Kernels that are right without what a mutant drops.
OWN_RULES = [
    Rule("drop mask", "^sum_lds", "all lanes store the same sum"),
    Rule("drop barrier", "^sum_lds", "the last steps are those of one wave"),
    Rule("drop mask", "^histogram", "lanes that take a maximum once more"),
    Rule("choose first", r"^scan: .*v_cndmask_b32_e64 v\d+, 0, v", "the last wave's sum is in front of no wave"),
    Rule("drop mask", "^fp8_round", "the last lane's values are whole"),
]


def assembly_of(source, chip):
    command = [CLANG, *HIP_OPTIONS, f"--offload-arch={chip}", "-S", str(HERE / f"{source}.hip"), "-o", "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(prog="mutants.py", description="Mutants of kernels on the AMDGCN simulator.")
    parser.add_argument("--library", default=str(ROOT / "build/lib/libkvcsim_hip.so"))
    parser.add_argument("--chip", action="append", choices=CHIPS)
    parser.add_argument("--sites", type=int, default=3 if os.environ.get("KVC_LONG_TESTS") else 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    runtime = Runtime(options.library)
    # A mutant that goes on without end is found, too.
    runtime.options({"limit": "3000000"})
    tally = Tally(OWN_RULES + RULES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.hsaco"
        for chip in options.chip or ("gfx942", "gfx1100"):
            print(f"== {chip}", flush=True)
            texts = {source: assembly_of(source, chip) for source in {case.source for case in CASES.values()}}
            for name, case in CASES.items():
                if chip not in case.chips:
                    continue
                text = texts[case.source]
                code = [(number, 1, line) for kernel, number, line in instructions(text) if kernel == name]
                for kind, place, mutant in mutants(text, code, KINDS, options.sites, options.seed):
                    problem = ""
                    assemble(mutant, chip, path)
                    runtime.use(chip)
                    try:
                        case.check(Run(runtime, runtime.load(path), chip))
                    except (AssertionError, RuntimeError) as error:
                        problem = " ".join(str(error).split()) or "a wrong result"
                    runtime.reset()
                    tally.add(chip, kind, f"{name}: {place}", problem, True, options.verbose)
    return tally.finish(not options.chip)


if __name__ == "__main__":
    sys.exit(main())

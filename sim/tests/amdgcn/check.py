#!/usr/bin/env python3
# Kernels that clang compiles for AMD chips, run through the simulated HIP runtime and compared with NumPy.
"""check.py [--library LIBRARY] [--chip CHIP]... [case...]

clang makes code objects of kernels.hip and the other sources for each chip; the runtime loads and launches them as any program
would. Every kernel runs three times: in turn, with waves in random order, and from the last work-group to the first, and
gives the same bits. Without names of cases the single instructions of vectors.py are run, too. The last line is `N passed,
N failed, N skipped`.
"""
import argparse
import sys
import tempfile

import numpy as np

import algorithms  # noqa: F401 (adds its cases)
import corners  # noqa: F401 (adds its cases)
import gfx950  # noqa: F401 (adds its cases)
import kernels  # noqa: F401 (adds its cases)
import vectors
from hip import CASES, CHIPS, HERE, ROOT, SCHEDULES, Run, Runtime, compile_hip


def main():
    parser = argparse.ArgumentParser(prog="check.py", description="Kernels by clang on the AMDGCN simulator.")
    parser.add_argument("--library", default=str(ROOT / "build/lib/libkvcsim_hip.so"))
    parser.add_argument("--chip", action="append", choices=CHIPS)
    parser.add_argument("cases", nargs="*", metavar="case")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"expects cases out of {', '.join(CASES)}, but got {', '.join(unknown)}")
    passed = failed = 0
    np.seterr(all="ignore")
    runtime = Runtime(options.library)
    with tempfile.TemporaryDirectory() as folder:
        for chip in options.chip or CHIPS:
            runtime.use(chip)
            code = {source: compile_hip(HERE / f"{source}.hip", chip, folder) for source in {c.source for c in CASES.values() if chip in c.chips}}
            modules = {}
            for name, known in CASES.items():
                if chip not in known.chips or (options.cases and name not in options.cases):
                    continue
                try:
                    if known.source not in modules:
                        modules[known.source] = runtime.load(code[known.source])
                    known.check(Run(runtime, modules[known.source], chip))
                    passed += 1
                except (AssertionError, RuntimeError) as error:
                    print(f"FAIL {chip} {name}: {str(error).strip()}")
                    failed += 1
                    # All modules went with the device's context.
                    runtime.reset()
                    runtime.use(chip)
                    modules.clear()
            if not options.cases:
                runtime.options(SCHEDULES["in turn"])
                good, bad = vectors.run(runtime, chip, folder)
                passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

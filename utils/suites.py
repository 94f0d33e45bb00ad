#!/usr/bin/env python3
# Builds kvc and runs its test suites; called by utils/test, which documents the command line.
"""Runs suites in the order of the table, counts every case, prints one line per suite and a total.

A suite fails when a case fails, when its command fails, when it ran no case at all, or when it takes more than
twice its budget (it is ended then).
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIT = "/usr/lib/llvm-22/bin/lit"
JOBS = str(os.cpu_count() or 1)


@dataclass
class Suite:
    """One row. `kind` says how cases are counted:
    lit     `what` is a folder of the build with a lit.site.cfg.py
    ctest   `what` is a regular expression of ctest labels
    pytest  `what` is a folder or file
    script  `what` is a command whose last line reads `N passed, N failed, N skipped`; {minutes} is the budget
    A suite with a `preset` other than release builds `targets` of that preset first, within its budget.
    """

    name: str
    kind: str
    what: str
    minutes: float
    long_minutes: float
    preset: str = "release"
    targets: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    # Runs when it is named, or with --long.
    on_demand: bool = False
    # A program that utils/setup does not bring: where it is missing, the suite counts as one skipped case.
    needs: str = ""


ASAN = {
    # libMLIR and libLLVM are not instrumented: a container that crosses the border looks overflown, and what an
    # allocator of LLVM's headers poisons on one side stays poisoned on the other.
    "ASAN_OPTIONS": "detect_container_overflow=0:allow_user_poisoning=0:detect_stack_use_after_return=1:"
                    "strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}

TSAN = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}

# Fast ones first. Budgets are minutes on two cores.
BUILD_MINUTES = 15
SUITES = [
    #     name           kind      what                      min  long
    Suite("style",       "script", "utils/style",            2,   10),
    Suite("unit",        "ctest",  "^unit$",                 3,   10),
    Suite("docs",        "script", "utils/check-docs",       1,   2),
    Suite("lit",         "lit",    "test",                   3,   10),
    Suite("conformance", "ctest",  "^cts$",                  2,   10),
    Suite("oracle",      "pytest", "test/Reference",         3,   20),
    Suite("mutants",     "pytest", "test/differential",      3,   10),
    Suite("differential", "script", "build/bin/kvc-differential", 12, 60),
    Suite("integration", "lit",    "test/Integration",       5,   90),
    Suite("python",      "pytest", "python/tests",           5,   15),
    Suite("asan",        "ctest",  "^asan$",                 9,   20, "dev", ["kvc-asan-tests"], ASAN),
    Suite("tsan",        "ctest",  "^tsan$",                 6,   15, "tsan", ["kvc-tsan-tests"], TSAN),
    Suite("gpu-resources", "script", "utils/gpu-resources",  3,   5),
    Suite("gpu-counts",  "script", ".venv/bin/python utils/gpu_counts.py --filter sm_80 --filter gfx942", 4, 10),
    Suite("sim-nvcc",    "script", ".venv/bin/python sim/tests/nvcc/check.py", 2, 5, needs="nvcc"),
    Suite("sim-amdgcn",  "script", ".venv/bin/python sim/tests/amdgcn/check.py", 2, 5),
    Suite("amdgcn-mutants", "script", ".venv/bin/python sim/tests/amdgcn/mutants.py", 2, 10),
    Suite("ptx-mutants", "script", ".venv/bin/python test/differential/ptx_mutants.py", 2, 15),
    Suite("amd-mutants", "script", ".venv/bin/python test/differential/amd_mutants.py", 2, 15),
    Suite("differential-sim", "script", "test/differential/run-sim", 12, 30),
    Suite("triton",      "script", "sim/tests/peers/run",     5,  15, on_demand=True),
    Suite("sim-mutants", "script", ".venv/bin/python sim/tests/mutants", 3, 15, needs="nvcc"),
    Suite("tidy",        "script", "utils/tidy --minutes {minutes}", 4, 30, on_demand=True),
]

RESULT_LINE = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    # What went wrong beyond single cases; each counts as one failure.
    errors: list = field(default_factory=list)
    failing: list = field(default_factory=list)


def binary_dir(preset):
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    by_name = {p["name"]: p for p in presets}
    return Path(by_name[preset]["binaryDir"].replace("${sourceDir}", str(ROOT)))


def run(command, log, minutes, environment=None):
    """Runs a command with its output in a log; returns its exit status, or None when it was ended for time."""
    with open(log, "ab") as sink:
        sink.write(("$ " + " ".join(command) + "\n").encode())
        sink.flush()
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(environment or {})}, start_new_session=True)
        try:
            return process.wait(timeout=minutes * 60)
        except BaseException as reason:
            # The whole group: ctest and lit have children of their own.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(reason, subprocess.TimeoutExpired):
                return None
            raise


def build(preset, targets, log, minutes):
    """Configures a preset and builds targets (all of them when none is named); returns an error or None."""
    folder = binary_dir(preset)
    steps = [["cmake", "--preset", preset, "-DKVC_BUILD_TESTS=ON"], ["ninja", "-C", str(folder), *targets]]
    deadline = time.monotonic() + minutes * 60
    for step in steps:
        status = run(step, log, max(0.01, (deadline - time.monotonic()) / 60))
        if status is None:
            return f"building preset {preset} took more than {minutes:g} minutes"
        if status != 0:
            return f"`{' '.join(step)}` failed with status {status}"
    return None


def read_lit(path, outcome):
    for test in json.loads(path.read_text())["tests"]:
        code = test["code"]
        if code in ("PASS", "FLAKYPASS", "XFAIL"):
            outcome.passed += 1
        elif code in ("UNSUPPORTED", "SKIPPED"):
            outcome.skipped += 1
        elif code != "EXCLUDED":
            outcome.failed += 1
            outcome.failing.append(test["name"])


def read_junit(path, outcome):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            outcome.failed += 1
            outcome.failing.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            outcome.skipped += 1
        else:
            outcome.passed += 1


def read_script(path, outcome):
    lines = path.read_text(errors="replace").rstrip().splitlines()
    found = RESULT_LINE.match(lines[-1]) if lines else None
    if not found:
        outcome.errors.append("expects a last line `N passed, N failed, N skipped`, but got " + repr(lines[-1:]))
        return
    outcome.passed, outcome.failed, outcome.skipped = (int(n or 0) for n in found.groups())


def run_suite(suite, minutes, logs, environment):
    """Runs one suite, ended at twice `minutes`."""
    outcome = Outcome()
    if suite.needs and not shutil.which(suite.needs):
        print(f"{suite.name}: there is no {suite.needs} in PATH")
        outcome.skipped = 1
        return outcome
    log = logs / f"{suite.name}.log"
    log.unlink(missing_ok=True)
    start = time.monotonic()
    limit = 2 * minutes
    if suite.preset != "release":
        error = build(suite.preset, suite.targets, log, limit)
        if error:
            outcome.errors.append(error)
            return outcome
    limit -= (time.monotonic() - start) / 60
    folder = binary_dir(suite.preset)
    report = logs / f"{suite.name}.report"
    report.unlink(missing_ok=True)
    if suite.kind == "lit":
        command = [LIT, "-v", "-j", JOBS, "-o", str(report), str(folder / suite.what)]
        reader, source = read_lit, report
    elif suite.kind == "ctest":
        command = ["ctest", "--test-dir", str(folder), "-L", suite.what, "-j", JOBS, "--output-on-failure",
                   "--output-junit", str(report)]
        reader, source = read_junit, report
    elif suite.kind == "pytest":
        command = [sys.executable, "-m", "pytest", "-q", "--junitxml", str(report), suite.what]
        reader, source = read_junit, report
    else:
        command = suite.what.format(minutes=minutes).split()
        reader, source = read_script, log
    status = run(command, log, max(0.01, limit), {**environment, **suite.environment})
    if status is None:
        outcome.errors.append(f"took more than {2 * minutes:g} minutes, twice its budget")
        return outcome
    if source.exists():
        reader(source, outcome)
    elif status == 0:
        outcome.errors.append("wrote no report")
    if status != 0 and not outcome.failed:
        outcome.errors.append(f"`{' '.join(command)}` failed with status {status}")
    if status == 0 and outcome.passed + outcome.failed == 0:
        outcome.errors.append("ran no test")
    return outcome


def tail(path, lines):
    if path.exists():
        for line in path.read_text(errors="replace").splitlines()[-lines:]:
            print("    | " + line)


def main():
    parser = argparse.ArgumentParser(prog="utils/test", description="Sets up, builds and tests kvc.")
    parser.add_argument("--long", action="store_true", help="the long version of each suite, with its long budget")
    parser.add_argument("--list", action="store_true", help="print the table of suites and stop")
    parser.add_argument("suites", nargs="*", metavar="suite", help="suites to run (default: all)")
    options = parser.parse_args()
    names = [suite.name for suite in SUITES]
    unknown = [name for name in options.suites if name not in names]
    if unknown:
        parser.error(f"expects suites out of {', '.join(names)}, but got {', '.join(unknown)}")
    if options.list:
        for suite in SUITES:
            print(f"{suite.name:14} {suite.kind:7} {suite.minutes:5g} min ({suite.long_minutes:g} long)  {suite.what}")
        return 0
    chosen = [suite for suite in SUITES
              if suite.name in options.suites or (not options.suites and (options.long or not suite.on_demand))]
    environment = {"KVC_LONG_TESTS": "1"} if options.long else {}

    logs = binary_dir("release") / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    total = Outcome()
    start = time.monotonic()
    log = logs / "build.log"
    log.unlink(missing_ok=True)
    error = build("release", [], log, 2 * BUILD_MINUTES)
    print(f"{'build':14} {time.monotonic() - start:7.1f} s (budget {BUILD_MINUTES} min)", flush=True)
    if error:
        print(f"  error: {error}; the end of {log.relative_to(ROOT)}:")
        tail(log, 60)
        print("0 passed, 1 failed, 0 skipped")
        return 1

    for suite in chosen:
        begin = time.monotonic()
        minutes = suite.long_minutes if options.long else suite.minutes
        outcome = run_suite(suite, minutes, logs, environment)
        outcome.failed += len(outcome.errors)
        seconds = time.monotonic() - begin
        over = "  over budget" if seconds > 60 * minutes else ""
        print(f"{suite.name:14} {seconds:7.1f} s (budget {minutes:g} min)  {outcome.passed} passed, "
              f"{outcome.failed} failed, {outcome.skipped} skipped{over}", flush=True)
        for error in outcome.errors:
            print(f"  error: {error}")
        for name in outcome.failing[:50]:
            print(f"  failed: {name}")
        if outcome.failed:
            log = logs / f"{suite.name}.log"
            print(f"  the end of {log.relative_to(ROOT)}:")
            tail(log, 80)
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped

    print(f"{'total':14} {time.monotonic() - start:7.1f} s")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

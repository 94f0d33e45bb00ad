# What the mutants of assembly share: places and changes, runs beside the oracle, the count of what was noticed.
"""The frame of ptx_mutants.py, amd_mutants.py and sim/tests/amdgcn/mutants.py.

Each mutant is one instruction of a kernel changed. It is detected when the simulator reports an error or a result is wrong.

A mutant that is not detected changes nothing when it fits a rule and its results have the same bits as those of the sound
kernel: it is listed with the rule's reason, and counts neither way. Of the others at least 95 % must be detected;
survivors are listed. So that a rule cannot hide a check that does not work, every kind that breaks the order of accesses,
and every other one that a rule is about, must be detected somewhere for each target.
"""
import argparse
import json
import os
import random
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import decode_plan
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NEEDED = 0.95
# Batches of plans, as entries, longest table and teams: shares that are more than the least, quotients that are rounded in both ways, more lists
# than lanes.
PLAN_BATCHES = [(9, 5000, 108), (67, 200000, 300), (69, 200000, 13), (130, 30000, 2), (33, 60000, 150), (3, 0, 20)]
GARBAGE = ("nan", "random", "inf16", "inf32")


@dataclass
class Kind:
    """`change` gives what becomes of an instruction that fits `pattern`, or the same text where there is nothing to
    change; with `looks_ahead` it gets the lines behind it, too. Kinds of an `ordering`, and
    those that are `needed`, are tried in three times as many places and must be noticed somewhere for each target."""

    name: str
    pattern: str
    change: object
    ordering: bool = False
    looks_ahead: bool = False
    needed: bool = False

    def apply(self, old, lines=(), end=0):
        if not re.search(self.pattern, old):
            return old
        return self.change(old, "\n".join(lines[end:end + 100])) if self.looks_ahead else self.change(old)


@dataclass
class Rule:
    """Why mutants of these kinds, of instructions that fit a pattern, whose results have the same bits change nothing."""

    kinds: str
    instruction: str
    reason: str


# Rules of every assembly.
ORDERED_OTHERWISE = Rule(r"drop barrier", r"",
                         "the order follows from other barriers: the race check follows all accesses of these runs and finds none")


def branches(kinds):
    return Rule(kinds, r"",
                "a branch around a faster way to the same numbers (whole tiles without bounds, tiles without masks, sums that "
                "need no rescaling), or around a loop that runs no time")


def drop(_):
    return ""


def mutants(text, code, kinds, sites, seed):
    """(kind, place, mutated text) of up to `sites` places of each kind. `code` has the instructions that may be changed:
    first line, from 0, number of lines, text."""
    lines = text.splitlines()
    for number, kind in enumerate(kinds):
        places = [(first, count, old) for first, count, old in code if kind.apply(old, lines, first + count) != old]
        most = min(sites * (3 if kind.ordering or kind.needed else 1), len(places))
        for first, count, old in sorted(random.Random(f"{seed} {number}").sample(places, most)):
            mutant = lines[:first] + [kind.apply(old, lines, first + count)] + lines[first + count:]
            yield kind, f"line {first + 1}: {' '.join(old.split())[:100]}", "\n".join(mutant) + "\n"


@dataclass
class Tally:
    rules: list
    caught: int = 0
    equal: int = 0
    survivors: int = 0
    # Whether a kind was ever noticed for a target.
    seen: dict = field(default_factory=dict)

    def add(self, target, kind, place, problem, same_bits, verbose=False):
        """One mutant: what went wrong with it, or nothing. Prints it where that is worth a line."""
        if kind.ordering or kind.needed:
            self.seen[target, kind.name] = self.seen.get((target, kind.name), False) or bool(problem)
        if problem:
            self.caught += 1
            if verbose:
                print(f"{kind.name}: {place}: {problem[:200]}", flush=True)
            return
        reason = next((rule.reason for rule in self.rules if same_bits and re.fullmatch(rule.kinds, kind.name) and
                       re.search(rule.instruction, place)), "")
        self.equal += bool(reason)
        self.survivors += not reason
        print(f"{kind.name}: {place}: {'EQUIVALENT: ' + reason if reason else 'SURVIVED' if same_bits else 'SURVIVED, other bits'}",
              flush=True)

    def finish(self, whole):
        """The last lines, and the exit status. A part of the kernels may have no place that matters."""
        total = self.caught + self.survivors
        blind = [f"{kind} ({target})" for (target, kind), noticed in self.seen.items() if whole and not noticed]
        if blind:
            print(f"expects every kind to be detected somewhere, but got none of: {', '.join(blind)}")
        few = not total or self.caught < NEEDED * total or bool(blind)
        print(f"{self.caught} of {total} mutants were detected ({self.caught / max(total, 1):.1%}; expects {NEEDED:.0%}); "
              f"{self.equal} more change nothing")
        print(f"{self.caught} passed, {self.survivors + len(blind) if few else 0} failed, 0 skipped")
        return int(few)


@dataclass
class Language:
    """Assembly of a vendor: its kinds of mutants, the rules of those that change nothing, the kernels (target, values of
    the axes, shapes of the runs, each with a seed), and the plans of decode steps that are broken on their own (target, form
    of decode_plan.py): with another plan results are right, too.

    `executed(text, target, reports, folder)` gives the instructions that the simulator's reports say were executed, as
    `mutants` wants them; `build(text, target, path)` writes what kvc-differential takes in place of the kernel's own, or
    raises subprocess.CalledProcessError. A mutant that is noticed in the first runs does not make the others.
    """

    name: str
    kinds: list
    rules: list
    kernels: list
    plans: list
    executed: object
    build: object
    sites: int = 4
    long_sites: int = 20


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def stop(message):
    raise SystemExit(f"{message}\n0 passed, 1 failed, 0 skipped")


def try_kernel(language, target, values, shapes, options, folder):
    """Results of all mutants of a kernel: (kind, place, what went wrong or nothing, whether the bits are the same)."""
    tool = options.build / "bin" / "kvc-differential"
    where = ["--device", f"sim:{target}", "--target", target, "--jobs", options.jobs]
    cases = [f"{values},shape={shape.split()[0]},garbage={GARBAGE[number % len(GARBAGE)]},inputs=finite,seed={shape.split()[1]}"
             for number, shape in enumerate(shapes)]
    status, out, err = run([tool, "--case", cases[0], "--write-assembly", folder / "sound.s", *where])
    if status:
        stop(f"{target} {values}: the kernel without a mutant is not right: {out[-300:]}{err[-300:]}")
    text = (folder / "sound.s").read_text()

    def results_of(texts, **environment):
        status, out, err = run([tool, "--case", ";".join(cases), "--assemblies", texts, *where], env={**os.environ, **environment})
        results = dict(line.split("\t", 1) for line in out.splitlines())
        if status or len(results) != len(list(texts.iterdir())):
            stop(f"{target} {values}: {err[-500:]}{out[-500:]}")
        return results

    sound = folder / "sound"
    sound.mkdir()
    language.build(text, target, sound / "sound")
    result = results_of(sound, KVCSIM_REPORT=str(folder / "report"), KVCSIM_INSTRUCTIONS="on")["sound"]
    if not result.startswith("PASS"):
        stop(f"{target} {values}: the kernel without a mutant is not right: {result}")
    reports = [json.loads(line) for line in (folder / "report").read_text().splitlines()]
    reports = [report for report in reports if report["kernel"] != decode_plan.KERNEL]
    code = language.executed(text, target, reports, folder)

    texts = folder / "texts"
    texts.mkdir()
    made = list(mutants(text, code, language.kinds, options.sites, options.seed))

    def write(number):
        try:
            language.build(made[number][2], target, texts / f"{number:04}")
        except subprocess.CalledProcessError as error:
            return f"{made[number][1]}: cannot be assembled: {error.stderr}"
        return ""
    with ThreadPoolExecutor(options.jobs) as pool:
        problems = list(filter(None, pool.map(write, range(len(made)))))
    if problems:
        stop("\n".join(problems))
    results = results_of(texts)
    for number, (kind, place, _) in enumerate(made):
        got = results[f"{number:04}"]
        yield kind, place, "" if got.startswith("PASS") else got[5:], got == result


def try_plan(language, target, form, options, folder):
    """The same of the kernel that plans decode steps, whose results are compared with the rule."""
    bin_folder = options.build / "bin"
    kernel = decode_plan.PlanKernel(bin_folder / "kvc-compile", bin_folder / "kvc-sim", folder, target, form)
    seed = np.random.default_rng(11)
    batches = [decode_plan.Batch(seed, kernel.tables, *sizes) for sizes in PLAN_BATCHES]
    code = folder / "code"
    # A loop without an end is found, too, and a record that another block makes right again.
    limits = ["--max-instructions", "1000000", "--both-orders"]
    language.build(kernel.assembly, target, code)
    try:
        reports = [json.loads(kernel.check(code, batch, ["--json", "--instructions", *limits])[1]) for batch in batches]
    except decode_plan.Failure as failure:
        stop(f"{target} plan {form}: the kernel without a mutant is not right: {failure}")
    places = language.executed(kernel.assembly, target, reports, folder)
    for kind, place, text in mutants(kernel.assembly, places, language.kinds, options.sites, options.seed):
        problem = ""
        try:
            language.build(text, target, code)
            for batch in batches:
                kernel.check(code, batch, limits)
        except subprocess.CalledProcessError as error:
            stop(f"{place}: cannot be assembled: {error.stderr}")
        except decode_plan.Failure as failure:
            problem = str(failure)
        yield kind, place, problem, not problem


def main(language):
    parser = argparse.ArgumentParser(prog=language.name)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--sites", type=int, default=language.long_sites if os.environ.get("KVC_LONG_TESTS") else language.sites,
                        help="places of each kind in each kernel (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--filter", default="", help="only kernels with this in their target and values")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    tally = Tally(language.rules)

    def tried(target, name, results):
        if options.filter not in name:
            return
        print(f"== {name}", flush=True)
        begin, before = time.monotonic(), tally.caught + tally.equal + tally.survivors
        with tempfile.TemporaryDirectory() as folder:
            for kind, place, problem, same_bits in results(Path(folder)):
                tally.add(target, kind, place, problem, same_bits, options.verbose)
        print(f"{tally.caught + tally.equal + tally.survivors - before} mutants, {time.monotonic() - begin:.1f} s", flush=True)

    for target, values, shapes in language.kernels:
        tried(target, f"{target} {values}: {', '.join(shapes)}",
              lambda folder: try_kernel(language, target, values, shapes, options, folder))
    for target, form in language.plans:
        tried(target, f"{target} plan {form}", lambda folder: try_plan(language, target, form, options, folder))
    return tally.finish(not options.filter)

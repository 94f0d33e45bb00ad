# A test of the differential test: with a compiler or an oracle broken on purpose it must fail.
"""Each mutant changes lowered kernels before code generation, or one operation of the oracle. The same cases pass without
it, so what fails is the comparison."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("KVC_DIFFERENTIAL", ROOT / "build" / "bin" / "kvc-differential"))

# mutant, part of the names of the kernels it breaks, a case that must notice
KERNEL_MUTANTS = [
    ("drop-mask", "attention", "default,shape=prefill,seed=1"),
    ("swap-subtraction", "attention", "k=int8,v=int4,shape=ragged,seed=1"),
    ("flip-maximum", "attention", "k=f32,v=f32,shape=ragged,seed=3"),
    ("shift-comparison", "attention", "k=f32,mask=causal/window,shape=prefill,seed=1"),
    ("drop-addition", "append", "k=int4,rope=append,shape=ragged,seed=1"),
]
ORACLE_MUTANTS = [
    ("drop-causal", "default,shape=prefill,seed=1"),
    ("change-scale", "k=f32,v=f32,shape=ragged,seed=1"),
    ("exchange-planes", "k=f32,v=int4,shape=ragged,seed=1"),
]


def run(*options):
    done = subprocess.run([TOOL, *options], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout


def compares_unequal(output):
    """A result differs; nothing failed to compile or to run."""
    return re.search(r"^FAIL call \d+ @\w+ result ", output, re.MULTILINE) is not None


@pytest.mark.parametrize("case", sorted({case for *_, case in KERNEL_MUTANTS + ORACLE_MUTANTS}))
def test_case_passes(case):
    status, output = run("--case", case)
    assert status == 0 and output.endswith("PASS\n"), output


@pytest.mark.parametrize("mutant, kernel, case", KERNEL_MUTANTS)
def test_broken_kernel_fails(mutant, kernel, case):
    status, output = run("--case", case, "--mutate-kernel", mutant, "--mutated-kernel", kernel)
    assert status == 1 and compares_unequal(output), output


@pytest.mark.parametrize("mutant, case", ORACLE_MUTANTS)
def test_broken_oracle_fails(mutant, case):
    status, output = run("--case", case, "--mutate-oracle", mutant)
    assert status == 1 and compares_unequal(output), output


@pytest.mark.parametrize("options", [("--mutate-kernel", "drop-mask", "--mutated-kernel", "attention"),
                                     ("--mutate-oracle", "change-scale")])
def test_broken_suite_fails(options):
    """The suite as a whole, over some kernels: it counts the failures and exits with 1."""
    values = "v=f16,page=32,group=32,heads=2,gqa=2,dim=64,rope=none,op=none,residual=0,slots=implicit,tables=per_sequence"
    arguments = ("--filter", values + ",mask=causal,score=none,selection=none,segments=1", "--runs", "12", "--kernels", "2")
    status, output = run(*arguments, *options)
    passed, failed, _ = map(int, re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", output.splitlines()[-1]).groups())
    assert status == 1 and failed >= 6, output
    status, output = run(*arguments)
    assert status == 0 and passed + failed == int(output.splitlines()[-1].split()[0]), output

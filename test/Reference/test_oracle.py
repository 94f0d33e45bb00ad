# The oracle of lib/Reference against the independent one in NumPy, over random programs.
"""Run one case: python -m pytest test/Reference/test_oracle.py -k 'program and 17]'. KVC_LONG_TESTS=1 runs more."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cases import Program  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KVC_RUN = Path(os.environ.get("KVC_RUN", ROOT / "build" / "bin" / "kvc-run"))
MUTANT = KVC_RUN.with_name("kvc-reference-mutant")
CASES = 3000 if os.environ.get("KVC_LONG_TESTS") else 200


def run(program, folder, mutate=None):
    """Results of `kvc-run module --reference`, as it holds them, in f64; `mutate` names an operation to break."""
    (folder / "f.mlir").write_text("// A random program.\n" + program.text())
    inputs, outputs = [], []
    for i, array in enumerate(program.arguments):
        inputs.append(str(folder / f"in{i}.npy"))
        np.save(inputs[-1], array)
    outputs = [str(folder / f"out{i}.npy") for i in range(len(program.results))]
    command = [str(KVC_RUN), "module", str(folder / "f.mlir"), "--function", "f", "--inputs", ",".join(inputs),
               "--outputs", ",".join(outputs), "--reference", "--f64", "--sequences", "3"]
    if mutate:
        command = [str(MUTANT), mutate, str(folder / "f.mlir"), "f", ",".join(inputs), ",".join(outputs)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.load(path) for path in outputs]


def compare(program, got):
    for (name, _, want, exact), value in zip(program.results, got):
        tolerance = 0 if exact else 1e-9
        np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance, equal_nan=True, err_msg=name)


@pytest.mark.parametrize("seed", range(CASES))
def test_program(seed, tmp_path):
    program = Program(seed)
    compare(program, run(program, tmp_path))


def test_everything_is_met():
    """The programs together use every operation and option often enough to mean something."""
    met = Counter(kind for seed in range(CASES) for kind in Program(seed).used)
    wanted = ("append attention online_attention merge_states topk threshold map_scores truncate seal fork requantize import evict compact "
              "rebase tree sink_logits commit").split()
    wanted += [f"accumulate {u}" for u in ("add", "decay", "max", "replace")]
    wanted += [f"stat {s}" for s in ("sum", "max", "count", "mean", "decay", "hits")]
    wanted += [f"score {s}" for s in ("bound", "dot", "key_norm", "plane")]
    wanted += [f"score region {s}" for s in ("soft_cap", "alibi", "capture", "cut")]
    assert all(met[kind] >= 5 for kind in wanted), {kind: met[kind] for kind in wanted}


@pytest.mark.parametrize("operation", (
    "append attention online_attention merge_states score pool topk threshold map_scores truncate seal fork requantize import export evict "
    "compact commit merge_slots rebase accumulate soft_cap alibi").split())
def test_a_broken_operation_is_seen(operation, tmp_path):
    """The oracle with one operation broken on purpose fails at least one of the programs that use it."""
    users = (p for p in map(Program, range(CASES)) if f"kvcache.{operation} " in p.text().replace('"', " "))
    for i, program in zip(range(8), users):
        folder = tmp_path / str(i)
        folder.mkdir()
        try:
            compare(program, run(program, folder, f"kvcache.{operation}"))
        except AssertionError as error:
            # A difference, or a selection or cache that no longer fits.
            assert "Not equal" in str(error) or "expects" in str(error), error
            return
    raise AssertionError(f"no program sees that {operation} is broken")

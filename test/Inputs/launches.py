# Which kernels of attention a call launches, and its results beside the oracle's.
"""`launches.py KVC_RUN MODULE FOLDER DEVICE...`: batches of prompts alone, of decode steps alone, of both, and without rows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

LENGTHS = [1100, 40, 7]
PREFILL, DECODE = ["attention"], ["attention_plan", "attention_decode", "attention_merge"]
# Rows by sequence; None where it isn't in the batch.
BATCHES = {
    "prompts": ([70, 40, 2], PREFILL),
    "steps": ([1, 1, 1], DECODE),
    "some steps": ([1, 0, 1], DECODE),
    # Nothing to merge where no sequence has more slots than a span.
    "short steps": ([None, 1, 1], DECODE[:2]),
    "both": ([1, 40, 1], DECODE[:2] + PREFILL + DECODE[2:]),
    "nothing": ([0, 0, 0], []),
}
BOUND = 4e-3


def save_batch(folder, name, rows):
    """The last rows of sequences."""
    sequences = [sequence for sequence, count in enumerate(rows) if count is not None]
    counts = [rows[sequence] for sequence in sequences]
    arrays = {"offsets": np.concatenate([[0], np.cumsum(counts)]), "sequences": np.array(sequences),
              "positions": np.concatenate([np.arange(LENGTHS[s] - rows[s], LENGTHS[s]) for s in sequences])}
    for array, values in arrays.items():
        np.save(folder / f"{name}_{array}.npy", values.astype("i4"))
    return [f"{folder}/{name}_{array}.npy" for array in arrays]


def main(kvc_run, module, folder, *devices):
    folder = Path(folder)
    random = np.random.default_rng(5)
    for name in "kv":
        np.save(folder / f"{name}.npy", random.standard_normal((sum(LENGTHS), 2, 64)).astype("f4"))
    new = save_batch(folder, "new", LENGTHS)
    for title, (rows, expected) in BATCHES.items():
        np.save(folder / "q.npy", random.standard_normal((sum(count or 0 for count in rows), 8, 64)).astype("f4"))
        batch = save_batch(folder, "batch", rows)
        inputs = ",".join([f"{folder}/q.npy", f"{folder}/k.npy", f"{folder}/v.npy", *new, *batch])

        def run(options):
            command = [kvc_run, "module", module, "--function", "attend", "--inputs", inputs, "--outputs", f"{folder}/out.npy"]
            done = subprocess.run(command + options, capture_output=True, text=True, timeout=600)
            if done.returncode:
                sys.exit(f"{title}, {options}: {done.stdout}{done.stderr}")
            return np.load(folder / "out.npy"), json.loads(done.stdout or "{}").get("dispatches", [])

        want = run(["--reference"])[0]
        for device in devices:
            out, dispatches = run(["--device", device] + ([] if device == "cpu" else ["--sim-report", "--json"]))
            error = np.abs(out - want).max(initial=0)
            assert out.shape == want.shape and error <= BOUND, (title, device, error)
            launched = [dispatch["kernel"] for dispatch in dispatches if dispatch["kernel"].startswith("attention")]
            assert device == "cpu" or launched == expected, (title, device, launched)
        print(f"{title}: {', '.join(expected) or 'no kernel of attention'}")


main(*sys.argv[1:])

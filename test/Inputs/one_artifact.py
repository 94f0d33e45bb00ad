# Runs one artifact on devices of several kinds: within tolerance of the oracle, and the same bits again.
"""`one_artifact.py KVC_RUN MODULE ARTIFACT FOLDER DEVICE=TARGET...`: TARGET is the code that the device must take. Each
device runs twice, the second time with another number of threads, and a simulated one with its work-groups in the
reverse order."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

LENGTHS, ROWS = [70, 33, 0, 5], [40, 1, 0, 5]
OUTPUTS = ["kivi_out", "kivi_lse", "plain_out", "plain_lse"]
# Products of f16; a log-sum-exp sums errors of scores.
BOUNDS = {"out": 4e-3, "lse": 1.6e-2}


def write_inputs(folder):
    random = np.random.default_rng(11)
    count = len(LENGTHS)
    arrays = {
        "k": random.standard_normal((sum(LENGTHS), 2, 64)).astype("f4"),
        "v": random.standard_normal((sum(LENGTHS), 2, 64)).astype("f4"),
        "new_offsets": np.concatenate([[0], np.cumsum(LENGTHS)]).astype("i4"),
        "new_sequences": np.arange(count, dtype="i4"),
        "new_positions": np.concatenate([np.arange(length) for length in LENGTHS]).astype("i4"),
        "q": random.standard_normal((sum(ROWS), 8, 64)).astype("f4"),
        "offsets": np.concatenate([[0], np.cumsum(ROWS)]).astype("i4"),
        "sequences": np.arange(count, dtype="i4"),
        "positions": np.concatenate([np.arange(length - rows, length) for length, rows in zip(LENGTHS, ROWS)]).astype("i4"),
    }
    for name, array in arrays.items():
        np.save(folder / f"in_{name}.npy", array)
    return ",".join(f"{folder}/in_{name}.npy" for name in arrays)


def run(tool, module, folder, inputs, name, options, environment=()):
    """The results, and what the tool printed as JSON."""
    outputs = [folder / f"{name}_{output}.npy" for output in OUTPUTS]
    command = [tool, "module", module, "--function", "step", "--inputs", inputs, "--outputs", ",".join(map(str, outputs))]
    done = subprocess.run(command + options, capture_output=True, text=True, timeout=600, env=dict(os.environ, **dict(environment)))
    if done.returncode:
        sys.exit(f"{name}: {done.stdout}{done.stderr}")
    return [np.load(output) for output in outputs], json.loads(done.stdout or "null")


def compare(device, got, want):
    worst = {}
    for output, a, b in zip(OUTPUTS, got, want):
        if a.shape != b.shape or a.dtype != np.float32:
            sys.exit(f"{device}: {output}: expects shape {b.shape}, but got {a.shape} of {a.dtype}")
        error = np.abs(a - b).max()
        worst[output] = f"{error:.1e}"
        if not error <= BOUNDS[output.split("_")[1]]:
            sys.exit(f"{device}: {output}: expects an error of at most {BOUNDS[output.split('_')[1]]}, but got {error}")
    return worst


def main():
    tool, module, artifact, folder, *devices = sys.argv[1:]
    folder = Path(folder)
    inputs = write_inputs(folder)
    want, _ = run(tool, module, folder, inputs, "oracle", ["--reference"])
    for device in devices:
        device, target = device.split("=")
        simulated = device.startswith("sim:")
        options = ["--device", device, "--json"] + (["--sim-report"] if simulated else [])
        name = device.replace(":", "_")
        first, report = run(tool, artifact, folder, inputs, name, options + ["--threads", "2"])
        if report["target"] != target:
            sys.exit(f"{device}: expects code for {target}, but got {report['target']}")
        for dispatch in report.get("dispatches", []):
            if dispatch["device"] != device or dispatch["instructions"] <= 0:
                sys.exit(f"{device}: expects every kernel to run there, but got {dispatch}")
        if simulated and len(report["dispatches"]) < 4:
            sys.exit(f"{device}: expects two appends and two attentions, but got {report['dispatches']}")
        worst = compare(device, first, want)
        again, _ = run(tool, artifact, folder, inputs, name + "_again", options + ["--threads", "1"],
                       {"KVCSIM_ORDER": "reverse", "KVCSIM_THREADS": "1"})
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, again)):
            sys.exit(f"{device}: expects the same bits in every run")
        print(f"{device}: errors {worst}")
    print(f"{len(devices)} devices agree")


if __name__ == "__main__":
    main()

# Runs attention that Triton compiled in the simulators, to count it as kvc's is counted (utils/gpu_counts.py).
import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import environments
from sass import ROOT, run

PEERS = ROOT / "sim" / "tests" / "peers"
# The largest difference of a result from that of numbers in double precision: products are of f16.
TOLERANCE = 5e-3


@functools.cache
def compiled(target):
    """Variants of kernels by the name of the peer; the folder lives as long as this process."""
    python = environments.install("triton", PEERS / "requirements.txt", notice="fetching Triton")
    folder = tempfile.TemporaryDirectory()
    done = subprocess.run([python, str(PEERS / "counted.py"), target, folder.name], capture_output=True, text=True,
                          env={**os.environ, "TRITON_CACHE_DIR": folder.name + "/cache", "TRITON_DEFAULT_FP_FUSION": "1"})
    if done.returncode:
        raise SystemExit(f"error: Triton did not compile its kernels for {target}: {done.stderr}")
    return json.loads(done.stdout), folder


def variants(case):
    """The kernels that may be the peer of a case."""
    return compiled(case.target)[0][case.peer]


def launch(build, folder, case, variant, keys):
    """The simulator's report of a kernel, and its PTX (empty on AMD's GPUs). The result is checked."""
    rows = (case.rows or keys) if case.kind == "prefill" else case.group
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((n, case.dim)).astype("f2") for n in (rows, keys, keys))
    page = 16
    table = random.permutation(keys // page).astype("i4")
    # Where the slots of pages lie that stand in another order.
    places = (table[:, None] * page + np.arange(page)).reshape(-1) if case.kind == "decode" else np.arange(keys)
    arrays = {"q": q, "k": np.zeros_like(k), "v": np.zeros_like(v), "o": np.zeros((rows, case.dim), "f4")}
    arrays["k"][places], arrays["v"][places] = k, v
    if case.kind == "decode":
        arrays = {"q": q, "k": arrays["k"], "v": arrays["v"], "table": table, "o": arrays["o"]}
    command = [build / "bin/kvc-sim", variant["file"], "--kernel", variant["kernel"], "--target", case.target,
               "--grid", f"{rows // variant['rows'] if case.kind == 'prefill' else 1},1,1",
               "--block", f"{variant['warps'] * variant['lanes']},1,1", "--smem", variant["shared"], "--json",
               "--instructions", "--no-races", "--no-uninitialised"]
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        command += ["--arg", f"{name}={folder}/{name}.npy"]
    scale = case.dim ** -0.5
    command += ["--arg", f"keys=i32:{keys}", "--arg", f"scale=f32:{scale * np.log2(np.e)}"]
    # Triton's own scratch buffers, which these kernels do not use.
    command += ["--arg", "scratch=u64:0", "--arg", "profile=u64:0", "--out", f"o={folder}/result.npy"]
    report = json.loads(run(command))
    s = q.astype("f8") @ k.astype("f8").T * scale
    if case.causal and case.kind == "prefill":
        s[np.arange(keys)[None, :] > np.arange(rows)[:, None]] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    error = np.abs(np.load(folder / "result.npy") - p / p.sum(1, keepdims=True) @ v.astype("f8")).max()
    if not error <= TOLERANCE:
        raise SystemExit(f"error: expects {variant['kernel']} of {case.peer} for {case.target} within {TOLERANCE} of the "
                         f"exact result, but got {error}")
    ptx = Path(variant["file"]).read_text() if variant["file"].endswith(".ptx") else ""
    return report, ptx

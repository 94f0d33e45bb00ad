# Perplexities by kvc with a disturbed weight: how far two runs of the same correct engine may be apart.
"""usage: make_disturbed.py KVC-RUN MODEL.gguf OUT.tsv FORMAT:WINDOW:CHUNK:ERROR:SEED ...    (needs the PyPI package gguf)

Appends lines (format, window, chunk, error, seed, perplexity) to OUT.tsv. In a copy of the model every weight of the first
norm, an f32 number, is multiplied by 1 + ERROR e, with e from a normal distribution.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

WINDOWS = Path(__file__).resolve().parent / "windows-smollm2.npy"


def main():
    kvc_run, model, out, *runs = sys.argv[1:]
    windows = np.load(WINDOWS)
    tensor = next(t for t in gguf.GGUFReader(model).tensors if t.name == "blk.0.attn_norm.weight")
    if tensor.data.dtype != np.float32:
        sys.exit(f"error: expects weights of the first norm in f32, but got {tensor.data.dtype}")
    weights = np.array(tensor.data)
    with tempfile.TemporaryDirectory() as folder:
        copy, ids = Path(folder) / "model.gguf", Path(folder) / "ids.json"
        shutil.copy(model, copy)
        for each in runs:
            kv, window, chunk, error, seed = each.split(":")
            noise = np.random.default_rng(int(seed)).standard_normal(len(weights))
            with open(copy, "r+b") as file:
                file.seek(int(tensor.data_offset))
                file.write((weights * (1 + float(error) * noise)).astype(np.float32).tobytes())
            ids.write_text(json.dumps(windows[int(window)].tolist()))
            done = subprocess.run([kvc_run, "perplexity", str(copy), "--ids", str(ids), "--window", str(windows.shape[1]),
                                   "--kv", kv, "--chunk", chunk, "--json"], capture_output=True, text=True, check=True)
            with open(out, "a") as file:
                file.write(f"{kv}\t{window}\t{chunk}\t{error}\t{seed}\t{json.loads(done.stdout)['perplexity']:.4f}\n")


main()

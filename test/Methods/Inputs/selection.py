# Runs selection.mlir on kernels and oracle over ragged, odd and empty sequences, and compares.
"""selection.py KVC-RUN MODULE FOLDER"""
import subprocess
import sys
from pathlib import Path

import numpy as np

NAMES = ("mixed", "out", "paged", "dense", "kept")


def run(kvc_run, module, folder, files, flags):
    outputs = [str(folder / f"{name}{'-reference' if flags else ''}.npy") for name in NAMES]
    subprocess.run([kvc_run, "module", module, "--function", "select", "--inputs", ",".join(files), "--outputs",
                    ",".join(outputs), "--capacity", "128", *flags], check=True)
    return [np.load(output) for output in outputs]


def main():
    kvc_run, module, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(3)
    selective = False
    for lengths in ((37, 9, 1), (8, 0, 64), (1,), (0, 0), ()):
        rows = sum(lengths)
        arrays = [random.standard_normal((rows, heads, 16), dtype=np.float32) for heads in (4, 2, 2)]
        arrays.append(np.cumsum((0,) + lengths).astype(np.int32))
        arrays.append(np.arange(len(lengths), dtype=np.int32))
        arrays.append(np.concatenate([np.arange(n) for n in (*lengths, 0)]).astype(np.int32))
        files = []
        for i, array in enumerate(arrays):
            files.append(str(folder / f"input{i}.npy"))
            np.save(files[-1], array)
        compiled = run(kvc_run, module, folder, files, [])
        reference = run(kvc_run, module, folder, files, ["--reference"])
        for name, got, want in zip(NAMES, compiled, reference):
            assert got.shape == want.shape, (lengths, name, got.shape, want.shape)
            finite = np.isfinite(want)
            assert np.array_equal(got[~finite], want[~finite]), (lengths, name)
            error = float(np.max(np.abs(got[finite] - want[finite]), initial=0))
            print(lengths, name, f"{error:.1e}")
            assert error <= 2e-4, (lengths, name)
        out, paged, dense = reference[1:4]
        selective |= rows > 0 and min(np.abs(out - dense).max(), np.abs(paged - dense).max()) > 1e-3
    assert selective, "expects selections that leave something out"


main()

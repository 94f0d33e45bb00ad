# Inputs of tree-count.mlir (sequences of 1, 70, 0 and 130 rows), and the comparison of its results.
import sys

import numpy as np

LENGTHS = [1, 70, 0, 130]


def make():
    random = np.random.default_rng(11)
    rows = sum(LENGTHS)
    np.save("offsets.npy", np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32))
    np.save("sequences.npy", np.arange(len(LENGTHS), dtype=np.int32))
    np.save("positions.npy", np.concatenate([np.arange(n) for n in LENGTHS]).astype(np.int32))
    for name, heads in (("q", 8), ("k", 2), ("v", 2)):
        np.save(name + ".npy", random.standard_normal((rows, heads, 64)).astype(np.float32))
    mask = random.random((rows, max(LENGTHS))) < 0.4
    mask[0, :] = False  # a row that sees nothing
    np.save("mask.npy", mask.astype(np.int8))


def check(names):
    for name in names:
        got, want = np.load(name + ".npy"), np.load(f"want-{name}.npy")
        assert got.shape == want.shape and np.abs(want[np.isfinite(want)]).max() > 0, (got.shape, want.shape)
        assert np.array_equal(np.isfinite(got), np.isfinite(want))
        error = np.abs(got - want)[np.isfinite(want)].max()
        print(f"{name}: largest difference {error:.2e}")
        # Counts are whole numbers; a probability beside the equal share may fall on either side of it.
        assert error < 1e-3 if name != "counts" else error <= 1 and (got != want).mean() < 0.01


if sys.argv[1] == "make":
    make()
else:
    check(sys.argv[2:])

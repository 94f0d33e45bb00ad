# Inputs of kivi-window.mlir (sequences of 1, 150, 0 and 300 rows), and the comparison of its results.
import sys

import numpy as np

LENGTHS = [1, 150, 0, 300]


def make():
    random = np.random.default_rng(7)
    rows = sum(LENGTHS)
    np.save("offsets.npy", np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32))
    np.save("sequences.npy", np.arange(len(LENGTHS), dtype=np.int32))
    np.save("positions.npy", np.concatenate([np.arange(n) for n in LENGTHS]).astype(np.int32))
    for name, heads in (("q", 8), ("k", 2), ("v", 2)):
        np.save(name + ".npy", random.standard_normal((rows, heads, 64)).astype(np.float32))


def check(bound=1e-3):
    for name in ("out", "lse"):
        got, want = np.load(name + ".npy"), np.load(f"want-{name}.npy")
        assert got.shape == want.shape and got.size, (got.shape, want.shape)
        error = np.abs(got - want).max()
        print(f"{name}: largest difference {error:.2e} of values up to {np.abs(want).max():.2f}")
        # The reference rotates keys in double precision: a key beside a rounding boundary gets the next 4-bit code.
        assert error < bound


{"make": make, "check": check}[sys.argv[1]](*map(float, sys.argv[2:]))

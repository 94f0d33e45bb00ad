# Inputs of aarch64.mlir as arrays and as the one file that aarch64_driver.c reads, and the comparison of the result.
import sys

import numpy as np

# Tokens of prompts: one table is split into spans, one has no token before the step.
PROMPTS = [5, 1100, 0, 33]


def make():
    random = np.random.default_rng(12)
    rows, entries = sum(PROMPTS), len(PROMPTS)
    numbers = lambda count, heads: random.standard_normal((count, heads, 64)).astype(np.float32)
    batch = lambda counts, positions: [np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
                                       np.array([2, 0, 3, 1], np.int32), np.array(positions, np.int32)]
    arrays = [np.array([entries, rows, max(PROMPTS), 0], np.int32)]
    arrays += batch(PROMPTS, np.concatenate([np.arange(n) for n in PROMPTS])) + batch([1] * entries, PROMPTS)
    arrays += [numbers(rows, 2), numbers(rows, 2), numbers(entries, 8), numbers(entries, 2), numbers(entries, 2)]
    names = [None, "offsets0", "sequences0", "positions0", "offsets", "sequences", "positions", "k0", "v0", "q", "k", "v"]
    with open("input.bin", "wb") as file:
        for name, array in zip(names, arrays, strict=True):
            data = array.tobytes()
            file.write(data + bytes(-len(data) % 64))
            if name:
                np.save(name + ".npy", array)


def check():
    want = np.load("want.npy")
    got = np.fromfile("output.bin", np.float32).reshape(want.shape)
    error = np.abs(got - want).max()
    print(f"largest difference {error:.2e} of values up to {np.abs(want).max():.2f}")
    assert np.abs(want).max() > 0.5 and error < 1e-5


make() if sys.argv[1] == "make" else check()

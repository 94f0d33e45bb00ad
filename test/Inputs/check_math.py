"""Makes arguments for math.mlir and checks its results: exp, exp2, log, log2, tanh, sin, cos, rsqrt."""
import sys

import numpy as np

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 3e38, -3e38, 88.7, 88.8, -103.9, -104.1, 127.9, 128.1, -149.1, -151.0]
# Largest error in units in the last place.
FUNCTIONS = [
    ("exp", np.exp, 2),
    ("exp2", np.exp2, 2),
    ("log", np.log, 1),
    ("log2", np.log2, 1),
    ("tanh", np.tanh, 1),
    ("sin", np.sin, 1),
    ("cos", np.cos, 1),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 2),
]


def main():
    if sys.argv[1] == "make":
        random = np.random.default_rng(7)
        x = np.concatenate([SPECIAL, random.uniform(-100, 100, 20000), random.normal(0, 1e-3, 5000), random.uniform(-1e5, 1e5, 20001)])
        np.save("x.npy", x.astype(np.float32))
        return
    x, y = np.load("x.npy"), np.load("y.npy")
    assert y.shape == (len(FUNCTIONS), len(x)), y.shape
    np.seterr(all="ignore")
    for row, (name, function, limit) in zip(y, FUNCTIONS):
        want = function(x.astype(np.float64))
        if name in ("sin", "cos"):
            keep = ~(np.abs(x) > 1e9)  # the range that is promised, and NaN
            row, want = row[keep], want[keep]
        single = want.astype(np.float32)
        finite = np.isfinite(single)
        assert np.array_equal(row[~finite], single[~finite], equal_nan=True), (name, row[~finite], single[~finite])
        ulp = np.maximum(np.spacing(np.abs(single[finite])).astype(np.float64), 2.0**-149)
        error = np.abs(row[finite].astype(np.float64) - want[finite]) / ulp
        assert len(error) > 10000 and error.max() <= limit, (name, error.max(), x[np.isfinite(function(x.astype(np.float64)))][error.argmax()])
        print(name, float(error.max()))


main()

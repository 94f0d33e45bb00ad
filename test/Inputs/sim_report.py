# Inputs of sim-report.mlir (a prompt of 70 rows), and the check of what a simulator counted for it.
"""`sim_report.py make` writes the arrays; `sim_report.py check DEVICE [CONFLICTS]` reads report.json of that device, on which
conflicts of staging memory may be that share of its accesses (0 where it is not given)."""
import json
import sys

import numpy as np

ROWS, HEADS, GROUP, DIM = 70, 2, 2, 64


def make():
    random = np.random.default_rng(1)
    for name, heads in (("q", HEADS * GROUP), ("k", HEADS), ("v", HEADS)):
        np.save(name + ".npy", random.standard_normal((ROWS, heads, DIM)).astype("f"))
    np.save("offsets.npy", np.array([0, ROWS], "i4"))
    np.save("sequences.npy", np.array([0], "i4"))
    np.save("positions.npy", np.arange(ROWS, dtype="i4"))


def check(device, conflicts="0"):
    with open("report.json") as file:
        report = json.load(file)
    dispatches, kernels = report["dispatches"], {k["kernel"]: k for k in report["sim_report"]}
    assert all(d["device"] == device and d["instructions"] > 0 for d in dispatches), dispatches
    assert sum(k["totals"]["instructions"] for k in kernels.values()) == sum(d["instructions"] for d in dispatches)
    attention = kernels["attention"]
    # The rows of the group of each KV head over their keys, at least the visible half of them.
    useful = 2 * HEADS * GROUP * 2 * DIM * (ROWS * (ROWS + 1) // 2)
    assert useful <= attention["totals"]["mma_flops"] <= 8 * useful, attention["totals"]
    totals = attention["totals"]
    assert totals["shared_conflicts"] <= float(conflicts) * totals["shared_ideal_wavefronts"], totals
    assert sum(attention["classes"].values()) == attention["totals"]["instructions"]
    assert attention["model"]["bound_us"] > 0


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])

# Attention in Triton, compiled for a GPU that is not there: what utils/gpu_counts.py counts beside kvc's kernels.
"""Arguments: the target, a folder for the kernels. Prints JSON: for each name of a peer the variants of its kernel,
with file, kernel, warps, shared bytes and rows of a block. The parameters are those of `prefill` and `decode`.

Scores are scaled where they are exponentiated, tiles that all rows see carry no mask, and probabilities are f16: as
Triton's users write it.
"""
import json
import sys
from pathlib import Path

import triton
import triton.language as tl

from compiling import TARGETS, compile_kernel


@triton.jit
def step(queries, keys_at, values_at, most, total, sums, scale, seen, MASKED: tl.constexpr):
    s = tl.dot(queries, tl.load(keys_at))
    if MASKED:
        s = tl.where(seen, s, float("-inf"))
    now = tl.maximum(most, tl.max(s, 1) * scale)
    p, old = tl.exp2(s * scale - now[:, None]), tl.exp2(most - now)
    total = total * old + tl.sum(p, 1)
    return now, total, tl.dot(p.to(tl.float16), tl.load(values_at), sums * old[:, None])


@triton.jit
def prefill(q, k, v, o, keys, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Rows of one head over slots that lie side by side; a causal row sees the slots up to its own number."""
    first = tl.program_id(0) * BM
    rm, rn, rd = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    queries = tl.load(q + rm[:, None] * D + rd[None, :])
    keys_at, values_at = k + rn[None, :] * D + rd[:, None], v + rn[:, None] * D + rd[None, :]
    most = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    whole = keys
    if CAUSAL:
        whole = first
    for _ in range(0, whole, BN):
        most, total, sums = step(queries, keys_at, values_at, most, total, sums, scale, None, False)
        keys_at += BN * D
        values_at += BN * D
    if CAUSAL:
        for j in range(first, first + BM, BN):
            seen = rm[:, None] >= j + rn[None, :]
            most, total, sums = step(queries, keys_at, values_at, most, total, sums, scale, seen, True)
            keys_at += BN * D
            values_at += BN * D
    tl.store(o + rm[:, None] * D + rd[None, :], sums / total[:, None])


@triton.jit
def decode(q, k, v, table, o, keys, scale, D: tl.constexpr, GROUP: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr):
    """One query row of the heads of a group, as rows of a matrix instruction, over pages."""
    rows, rn, rd = tl.arange(0, 16), tl.arange(0, BN), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + rd[None, :], mask=rows[:, None] < GROUP, other=0.0)
    most = tl.full((16,), float("-inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    sums = tl.zeros((16, D), tl.float32)
    for j in range(0, keys, BN):
        slots = j + rn
        used = slots < keys
        page = tl.load(table + slots // PAGE, mask=used, other=0).to(tl.int64)
        at = (page * PAGE + slots % PAGE) * D
        s = tl.dot(queries, tl.load(k + at[None, :] + rd[:, None], mask=used[None, :], other=0.0)) * scale
        s = tl.where(used[None, :], s, float("-inf"))
        now = tl.maximum(most, tl.max(s, 1))
        p, old = tl.exp2(s - now[:, None]), tl.exp2(most - now)
        total = total * old + tl.sum(p, 1)
        values = tl.load(v + at[:, None] + rd[None, :], mask=used[:, None], other=0.0)
        sums = tl.dot(p.to(tl.float16), values, sums * old[:, None])
        most = now
    tl.store(o + rows[:, None] * D + rd[None, :], sums / total[:, None], mask=rows[:, None] < GROUP)


PREFILL = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32", "keys": "i32", "scale": "fp32"}
DECODE = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "table": "*i32", "o": "*fp32", "keys": "i32", "scale": "fp32"}


def variants(target):
    """Peer, kernel, types, constants, warps, stages: of several with one name the best is the peer."""
    stages = 3 if target.startswith("sm") else 2
    for dim in (64, 128):
        for causal in (False, True):
            for warps in (4, 8):
                yield (f"prefill hd{dim}{' causal' if causal else ''}", prefill, PREFILL,
                       {"D": dim, "BM": 128, "BN": 64, "CAUSAL": causal}, warps, stages)
    yield "decode hd128", decode, DECODE, {"D": 128, "GROUP": 4, "PAGE": 16, "BN": 64}, 4, stages


def main():
    target, folder = sys.argv[1], Path(sys.argv[2])
    found = {}
    for number, (name, kernel, types, constants, warps, stages) in enumerate(variants(target)):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        path, shared = compile_kernel(kernel, types, constants, target, stages, place, warps)
        found.setdefault(name, []).append({"file": str(path), "kernel": kernel.fn.__name__, "shared": shared, "warps": warps,
                                           "lanes": TARGETS[target].warp_size, "rows": constants.get("BM", 1)})
    print(json.dumps(found))


if __name__ == "__main__":
    main()

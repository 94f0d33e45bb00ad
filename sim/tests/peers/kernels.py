# Kernels of Triton: compiled to PTX and to AMD code objects without a GPU, run in the simulators, compared with NumPy.
"""Called by sim/tests/peers/run in an environment with Triton. Arguments: kvc-sim, a folder for files.

Each line says what a case gave; the last line is `N passed, N failed, N skipped`.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

from compiling import TARGETS, compile_kernel

SIM, FOLDER = sys.argv[1], Path(sys.argv[2])
SCHEDULES = ([], ["--seed", "5"], ["--both-orders"])


@triton.jit
def vector_add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, o, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(o + row * n + i, v / tl.sum(v, 0), mask=i < n)


@triton.jit
def matmul(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    at, bt = a + rm[:, None] * k + rk[None, :], b + rk[:, None] * n + rn[None, :]
    for _ in range(0, k, BK):
        sums += tl.dot(tl.load(at), tl.load(bt))
        at += BK
        bt += BK * n
    tl.store(c + rm[:, None] * n + rn[None, :], sums)


@triton.jit
def attention(q, k, v, o, keys, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm, rd = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + rm[:, None] * D + rd[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for j in range(0, keys, BN):
        rn = j + tl.arange(0, BN)
        s = tl.dot(queries, tl.load(k + rn[None, :] * D + rd[:, None])) * scale
        now = tl.maximum(most, tl.max(s, 1))
        p, old = tl.exp2(s - now[:, None]), tl.exp2(most - now)
        total = total * old + tl.sum(p, 1)
        sums = tl.dot(p.to(tl.float16), tl.load(v + rn[:, None] * D + rd[None, :]), sums * old[:, None])
        most = now
    tl.store(o + rm[:, None] * D + rd[None, :], sums / total[:, None])


def simulate(kernel, path, shared, target, grid, arguments, schedule):
    """The array of the last buffer after the kernel; raises with the simulator's words."""
    result = FOLDER / "result.npy"
    command = [SIM, str(path), "--kernel", kernel.fn.__name__, "--grid", grid, "--block",
               f"{4 * TARGETS[target].warp_size},1,1", "--smem", str(shared), "--target", target, *schedule]
    out = [name for name, value in arguments.items() if isinstance(value, np.ndarray)][-1]
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            np.save(FOLDER / f"{name}.npy", value)
            value = FOLDER / f"{name}.npy"
        command += ["--arg", f"{name}={value}"]
    # Triton's own scratch buffers, which these kernels do not use.
    command += ["--arg", "scratch=u64:0", "--arg", "profile=u64:0", "--out", f"{out}={result}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or done.stderr:
        raise RuntimeError(done.stderr.strip())
    return np.load(result)


def cases():
    """Kernel, types, constants, stages, grid, arguments, expected, tolerance."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 4992), dtype=np.float32)
    yield (vector_add, {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32"}, {"B": 1024}, 1, "5,1,1",
           {"x": x, "y": y, "o": np.zeros_like(x), "n": "i32:4992"}, x + y, 0)
    x = rng.standard_normal((7, 496), dtype=np.float32)
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    yield (softmax, {"x": "*fp32", "o": "*fp32", "n": "i32"}, {"B": 512}, 1, "7,1,1",
           {"x": x, "o": np.zeros_like(x), "n": "i32:496"}, e / e.sum(1, keepdims=True), 1e-6)
    a, b = rng.standard_normal((128, 256)).astype("f2"), rng.standard_normal((256, 192)).astype("f2")
    yield (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "k": "i32"}, {"BM": 64, "BN": 64, "BK": 32}, 3,
           "2,3,1", {"a": a, "b": b, "c": np.zeros((128, 192), "f4"), "n": "i32:192", "k": "i32:256"},
           a.astype("f8") @ b.astype("f8"), 1e-3)
    q, k, v = rng.standard_normal((3, 256, 64)).astype("f2")
    s = q.astype("f8") @ k.astype("f8").T / 8
    p = np.exp(s - s.max(1, keepdims=True))
    yield (attention, {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32", "keys": "i32", "scale": "fp32"},
           {"D": 64, "BM": 128, "BN": 64}, 2, "2,1,1",
           {"q": q, "k": k, "v": v, "o": np.zeros((256, 64), "f4"), "keys": "i32:256", "scale": f"f32:{np.log2(np.e) / 8}"},
           p / p.sum(1, keepdims=True) @ v.astype("f8"), 1e-3)


def main():
    passed = failed = 0
    for kernel, types, constants, stages, grid, arguments, expected, tolerance in cases():
        for target in TARGETS:
            path, shared = compile_kernel(kernel, types, constants, target, stages, FOLDER)
            for schedule in SCHEDULES:
                name = f"{kernel.fn.__name__} {target} {' '.join(schedule)}"
                try:
                    error = float(np.abs(simulate(kernel, path, shared, target, grid, arguments, schedule) - expected).max())
                    good, text = error <= tolerance, f"largest error {error:.2g}"
                except RuntimeError as problem:
                    good, text = False, str(problem)
                passed, failed = passed + good, failed + (not good)
                print(f"{'PASS' if good else 'FAIL'}: {name}: {text}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# kvc.jit: modules as text, called with NumPy arrays.
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import reference

import kvc

TYPE = "!kvcache.cache<heads = 2, dim = 32, page = 16, k = f32, v = f32>"
STEP = f"""
!kv = {TYPE}
func.func @step(%q: tensor<?x4x32xf32>, %k: tensor<?x2x32xf32>, %v: tensor<?x2x32xf32>, %c: !kv, %b: !kvcache.batch)
    -> (tensor<?x4x32xf32>, !kv) {{
  %c1 = kvcache.append %c, %k, %v at %b : !kv, tensor<?x2x32xf32>, tensor<?x2x32xf32>
  %o = kvcache.attention %q over %c1 at %b {{scale = 0.25 : f32, causal}}
      : (tensor<?x4x32xf32>, !kv, !kvcache.batch) -> tensor<?x4x32xf32>
  return %o, %c1 : tensor<?x4x32xf32>, !kv
}}
"""
# @scale: exp2(x) * w, for x of tensor<?x64xf32> and w of tensor<64xf32>.
SCALE = (Path(__file__).resolve().parents[2] / "test" / "Inputs" / "scale.mlir").read_text()


def test_attention_matches_numpy():
    step = kvc.jit(STEP, "step")
    rng = np.random.default_rng(0)
    cache = kvc.Cache(kvc.CacheSpec(2, 32, k="f32", v="f32"), sequences=3, capacity=64)
    keys, values = [np.zeros((0, 2, 32))] * 3, [np.zeros((0, 2, 32))] * 3
    for rows in ((5, 0, 20), (1, 1, 1), (17, 3, 2)):
        q, k, v = (rng.standard_normal((sum(rows), h, 32)).astype(np.float32) for h in (4, 2, 2))
        offsets = np.cumsum([0, *rows])
        positions = np.concatenate([len(keys[s]) + np.arange(n) for s, n in enumerate(rows)])
        out, same = step(q, k, v, cache, (offsets, [0, 1, 2], positions))
        assert isinstance(same, kvc.Cache)
        for s in range(3):
            part = slice(offsets[s], offsets[s + 1])
            keys[s], values[s] = np.concatenate([keys[s], k[part]]), np.concatenate([values[s], v[part]])
            want, _, _ = reference.attention(q[part], keys[s], values[s], positions[part], 0.25)
            np.testing.assert_allclose(out[part], want, rtol=1e-5, atol=1e-5)
            assert cache.length(s) == same.length(s) == len(keys[s])


def test_arrays_are_converted_or_refused():
    scale = kvc.jit(SCALE, "scale")
    x = np.arange(-64, 64, dtype=np.float64).reshape(2, 64) / 16
    w = np.arange(64, dtype=np.float16)
    for given in (x, np.asfortranarray(x), x.astype(np.float32)[:, ::1]):
        got = scale(given, w)
        assert got.dtype == np.float32 and not got.flags.writeable
        np.testing.assert_allclose(got, np.exp2(x) * w, rtol=1e-6)
    with pytest.raises(TypeError, match="expects argument 1 of f32, but got int64"):
        scale(x, np.ones(64, int))
    with pytest.raises(TypeError, match="expects 2 arguments, but got 1"):
        scale(x)
    with pytest.raises(kvc.Error, match="expects"):
        scale(x, w[:2])
    with pytest.raises(kvc.Error, match="expects"):
        scale(x[0], w)
    assert scale(x[:0], w).shape == (0, 64)


@pytest.mark.parametrize("text, message", [
    ("func.func @f( {", r"<module>:1:14: error: "),
    ("func.func @f(%c: !kvcache.cache<heads = 2, dim = 32, page = 16, k = f33, v = f32>) { return }",
     r"expects a storage format"),
    ("func.func @f(%x: tensor<2xf32>) -> tensor<3xf32> {\n  return %x : tensor<2xf32>\n}", r"<module>:2:"),
])
def test_bad_module_raises_and_says_how_to_reproduce(text, message):
    with pytest.raises(kvc.Error, match=message) as caught:
        kvc.jit(text, "f")
    command = str(caught.value).rsplit("to reproduce: ", 1)[1].split()
    assert command[0] == "kvc-compile" and Path(command[1]).read_text() == text
    tool = Path(__file__).resolve().parents[2] / "build" / "bin" / "kvc-compile"
    if tool.exists():
        done = subprocess.run([tool, *command[1:]], capture_output=True, text=True)
        assert done.returncode != 0 and "error: " in done.stderr


def test_unknown_function_and_wrong_kinds():
    with pytest.raises(kvc.Error, match="expects a function among step, but got 'stop'"):
        kvc.jit(STEP, "stop")
    with pytest.raises(TypeError, match="expects the text of a module"):
        kvc.jit(b"", "f")
    step = kvc.jit(STEP, "step")
    q = np.zeros((1, 4, 32), np.float32)
    with pytest.raises(TypeError, match="expects a kvc.Cache for argument 3"):
        step(q, q[:, :2], q[:, :2], None, ([0, 1], [0], [0]))
    other = kvc.Cache(kvc.CacheSpec(2, 32, k="f16", v="f32"), sequences=1, capacity=16)
    with pytest.raises(kvc.Error, match="expects a cache of type"):
        step(q, q[:, :2], q[:, :2], other, ([0, 1], [0], [0]))
    cache = kvc.Cache(kvc.CacheSpec(2, 32, k="f32", v="f32"), sequences=1, capacity=16)
    for batch in (([0, 2], [0], [0]), ([0, 1], [0], []), ([1], [], [])):
        with pytest.raises(ValueError, match="expects query_offsets"):
            step(q, q[:, :2], q[:, :2], cache, batch)
    for batch in (([0, 1], [1], [0]), ([0, 1], [-1], [0]), ([0, 1], [0], [-5])):
        with pytest.raises(kvc.Error, match="expects"):
            step(q, q[:, :2], q[:, :2], cache, batch)
    assert cache.length() == 0


def test_artifacts_are_kept_and_damaged_ones_made_again():
    text = SCALE.replace("math.exp2", "math.absf")
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "kvc"
    before = set(folder.glob("*.kvca"))
    arguments = np.full((1, 64), -2, np.float32), np.full(64, 3, np.float32)
    kvc.jit(text, "scale")
    path, = set(folder.glob("*.kvca")) - before
    data = path.read_bytes()
    kvc.jit(text, "scale")
    assert path.read_bytes() == data
    path.write_bytes(data[: len(data) // 2])
    function = kvc.jit(text, "scale")
    np.testing.assert_array_equal(function(*arguments), np.full((1, 64), 6))
    assert path.read_bytes() == data


def test_other_threads_run_while_one_compiles():
    ticks, done = 0, threading.Event()
    text = STEP.replace("scale = 0.25", "scale = 0.75")

    def compile_module():
        try:
            kvc.jit(text, "step")
        finally:
            done.set()

    thread = threading.Thread(target=compile_module)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 10


def test_sizes_are_checked():
    rope = kvc.jit("""
        func.func @rope(%b: !kvcache.batch, %q: tensor<?x2x8xf32>) -> tensor<?x2x8xf32> {
          %r = kvcache.rope %q at %b by <base = 10000.0 : f32, dims = 8, pairing = half> : tensor<?x2x8xf32>
          return %r : tensor<?x2x8xf32>
        }""", "rope")
    with pytest.raises(kvc.Error, match=r"argument 1: expects size 500 in dimension 0, but got shape \[3, 2, 8\]"):
        rope(([0, 500], [0], range(500)), np.zeros((3, 2, 8), np.float32))


def test_a_function_that_needs_no_code():
    text = "func.func @same(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(kvc.jit(text, "same")(x), x)
    with pytest.raises(kvc.Error, match="expects a function among same, but got 'other'"):
        kvc.jit(text, "other")
    with pytest.raises(kvc.Error, match="expects a function to compile in the module, but got none"):
        kvc.jit("module {}", "same")

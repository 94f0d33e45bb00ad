# Runs a KV method on the compiled kernels and on the oracle over a prompt and several decode steps, and compares.
"""compare.py KVC-OPT KVC-RUN METHOD FOLDER [name=value ...]

Two sequences with prompts of different lengths, two layers, then STEPS decode steps: one function in which each call goes
on with the caches of the one before. Fails when an output differs by more than LIMIT, and (unless METHOD is dense) when the
method did not change the last step at all against dense.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np

HEADS, KV_HEADS, DIM, LAYERS, STEPS = 4, 2, 32, 2, 4
PROMPTS = (45, 23)
KVC_OPT, KVC_RUN = sys.argv[1:3]
# Both sides round keys and values to the same stored numbers; the rest is f32 against double.
LIMIT = 2e-4


def graph():
    q, k, kv = f"tensor<?x{HEADS}x{DIM}xf32>", f"tensor<?x{KV_HEADS}x{DIM}xf32>", "!kv"
    arguments, body, outputs = [], [], []
    caches = [f"%c{i}" for i in range(LAYERS)]
    arguments += [f"{cache}: {kv}" for cache in caches]
    for step in range(STEPS + 1):
        phase = "decode" if step else "prefill"
        arguments += [f"%q{step}: {q}", f"%k{step}: {k}", f"%v{step}: {k}", f"%b{step}: !kvcache.batch"]
        x = f"%q{step}"
        for layer in range(LAYERS):
            out, cache = f"%o{step}_{layer}", f"%c{step}_{layer}"
            body.append(
                f"  {out}, {cache} = kvcache.attend {x}, %k{step}, %v{step} with {caches[layer]} at %b{step}\n"
                f"    by <base = 10000.0 : f32, dims = {DIM}, pairing = half>\n"
                f'    {{layer = {layer} : i64, phase = "{phase}", scale = 0.25 : f32}} : {q}, {k}, {k}, {kv} -> {q}')
            x, caches[layer] = out, cache
        outputs.append(x)
    return (f"!kv = !kvcache.cache<heads = {KV_HEADS}, dim = {DIM}, page = 8, k = f16, v = f16>\n"
            f"func.func @steps({', '.join(arguments)}) -> ({', '.join([q] * len(outputs))}) {{\n" + "\n".join(body) +
            f"\n  return {', '.join(outputs)} : {', '.join([q] * len(outputs))}\n}}\n")


def inputs(folder):
    random = np.random.default_rng(7)
    files = []

    def save(name, array):
        np.save(folder / f"{name}.npy", array)
        files.append(str(folder / f"{name}.npy"))

    for step in range(STEPS + 1):
        lengths = PROMPTS if step == 0 else (1,) * len(PROMPTS)
        rows = sum(lengths)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            save(f"{name}{step}", random.standard_normal((rows, heads, DIM), dtype=np.float32))
        save(f"offsets{step}", np.cumsum((0,) + lengths).astype(np.int32))
        save(f"sequences{step}", np.arange(len(PROMPTS), dtype=np.int32))
        starts = [0] * len(PROMPTS) if step == 0 else [p + step - 1 for p in PROMPTS]
        save(f"positions{step}", np.concatenate([s + np.arange(n) for s, n in zip(starts, lengths)]).astype(np.int32))
    return files


def run(method, arguments, folder, files, flags):
    module = folder / f"{Path(method).stem}.mlirbc"
    options = f"method={method}" + (" args=" + ",".join(arguments) if arguments else "")
    subprocess.run([KVC_OPT, str(folder / "graph.mlir"), f"--kvc-splice-method={options}", "--emit-bytecode", "-o",
                    str(module)], check=True)
    outputs = [str(folder / f"{module.stem}{'-reference' if flags else ''}{i}.npy") for i in range(STEPS + 1)]
    subprocess.run([KVC_RUN, "module", str(module), "--function", "steps", "--inputs", ",".join(files), "--outputs",
                    ",".join(outputs), "--capacity", "128", *flags], check=True)
    return [np.load(output) for output in outputs]


def main():
    method, folder, arguments = sys.argv[3], Path(sys.argv[4]), sys.argv[5:]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.mlir").write_text(graph())
    files = inputs(folder)
    compiled = run(method, arguments, folder, files, [])
    reference = run(method, arguments, folder, files, ["--reference"])
    errors = [float(np.max(np.abs(a - b))) for a, b in zip(compiled, reference)]
    print(f"{method}: largest differences", " ".join(f"{e:.1e}" for e in errors))
    assert all(e <= LIMIT for e in errors), f"expects differences of at most {LIMIT}"
    if method != "dense":
        dense = run("dense", [], folder, files, ["--reference"])
        change = float(np.max(np.abs(dense[-1] - reference[-1])))
        print(f"{method}: changes the last step by {change:.1e}")
        assert change > 1e-3, "expects a method that changes something"


main()

# Append and attention over caches of several formats on a device, compared with the oracle.
"""`check_formats.py KVC_RUN FOLDER DEVICE FORMATS...`: FORMATS as in `!kvcache.cache`, such as "k = f16, v = int8"."""

import subprocess
import sys
from pathlib import Path

import numpy as np

TOKENS, HEADS, GROUP, DIM = 150, 2, 2, 64


def main():
    run, folder, device, *formats = sys.argv[1:]
    folder = Path(folder)
    random = np.random.default_rng(5)
    arrays = {name: random.standard_normal((TOKENS, heads, DIM)).astype("f")
              for name, heads in (("q", HEADS * GROUP), ("k", HEADS), ("v", HEADS))}
    arrays |= {"offsets": np.array([0, TOKENS], "i4"), "sequences": np.zeros(1, "i4"), "positions": np.arange(TOKENS, dtype="i4")}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    inputs = ",".join(f"{folder}/{name}.npy" for name in arrays)
    q, kv = f"tensor<?x{HEADS * GROUP}x{DIM}xf32>", f"tensor<?x{HEADS}x{DIM}xf32>"
    passed = 0
    for text in formats:
        module = folder / "f.mlir"
        module.write_text(f"""!kv = !kvcache.cache<heads = {HEADS}, dim = {DIM}, page = 32, {text}>
func.func @f(%q: {q}, %k: {kv}, %v: {kv}, %c: !kv, %b: !kvcache.batch) -> {q} {{
  %d = kvcache.append %c, %k, %v at %b : !kv, {kv}, {kv}
  %o = kvcache.attention %q over %d at %b {{scale = 0.125 : f32, causal}} : ({q}, !kv, !kvcache.batch) -> {q}
  return %o : {q}
}}
""")
        outputs = []
        for name, where in (("oracle", ["--reference"]), ("device", ["--device", device])):
            out = folder / f"{name}.npy"
            done = subprocess.run([run, "module", module, "--function", "f", "--inputs", inputs, "--outputs", out, *where],
                                  capture_output=True, text=True, timeout=600)
            if done.returncode:
                sys.exit(f"{text}: {done.stdout}{done.stderr}")
            outputs.append(np.load(out))
        error = np.abs(outputs[0] - outputs[1]).max()
        print(f"{text}: error {error:.2e}")
        # Products of 16-bit numbers; of f32 far less.
        passed += error < (1e-4 if "f32" in text else 4e-3)
    print(f"{passed} passed")
    return 0 if passed == len(formats) else 1


if __name__ == "__main__":
    sys.exit(main())

# Runs linear layers of every encoding on a device and compares them with sums in double precision.
"""`check_linear.py KVC_RUN FOLDER DEVICE [--rows N,...] [--large] [--fast] [case...]`: every case is a module with one layer of random
weights, y = r + x w^T (`pair_*`: silu(x w1^T) * x w2^T), run on DEVICE. Weights are decoded by the CPU, whose products with rows
of the identity are single values. Errors are relative to the size of what is added up, |r| + |x| |w|^T. `--large`:
activations of 1e5 among small ones. `--fast`: activations are rounded to bf16, and the error must show it."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

# Encoding: number in a GGUF file, values and bytes of a block, where f16 numbers lie in a block.
FORMATS = {
    "f32": (0, 1, 4, []),
    "f16": (1, 1, 2, []),
    "q4_0": (2, 32, 18, [0]),
    "q4_1": (3, 32, 20, [0, 2]),
    "q5_0": (6, 32, 22, [0]),
    "q5_1": (7, 32, 24, [0, 2]),
    "q8_0": (8, 32, 34, [0]),
    "q4_k": (12, 256, 144, [0, 2]),
    "q5_k": (13, 256, 176, [0, 2]),
    "q6_k": (14, 256, 210, [208]),
    "bf16": (30, 1, 2, []),
}
# Columns that fill no tile; K of whole blocks, of an odd number of them, or of single values.
CASES = {name: (77, 512 if values == 256 else 53 if values == 1 else 160, [name])
         for name, (_, values, _, _) in FORMATS.items()}
CASES |= {
    "q4_1_even": (64, 576, ["q4_1"]),
    "f16_even": (40, 192, ["f16"]),
    "bf16_even": (40, 192, ["bf16"]),
    "f32_even": (40, 192, ["f32"]),
    "pair_q4_0_q8_0": (36, 128, ["q4_0", "q8_0"]),
    "pair_q4_k_q6_k": (36, 256, ["q4_k", "q6_k"]),
    "pair_q5_1_f16": (36, 96, ["q5_1", "f16"]),
}  # fmt: skip
LIMIT, FAST_LIMIT = 2e-6, 2.0**-8


def random_weight(encoding, columns, inner, random):
    """The bytes of the blocks: random codes, factors of a sensible size."""
    _, values, size, halves = FORMATS[encoding]
    if encoding == "f32":
        return random.uniform(-0.1, 0.1, (columns, inner)).astype("<f4").tobytes()
    if encoding == "f16":
        return random.uniform(-0.1, 0.1, (columns, inner)).astype("<f2").tobytes()
    if encoding == "bf16":
        return (random.uniform(-0.1, 0.1, (columns, inner)).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    blocks = random.integers(0, 256, (columns * inner // values, size), dtype=np.uint8)
    for at in halves:
        factors = random.uniform(-0.1, 0.1, (len(blocks), 1)).astype("<f2")
        blocks[:, at : at + 2] = factors.view(np.uint8)
    return blocks.tobytes()


def write_gguf(path, tensors):
    """`tensors`: name, encoding, columns, inner, bytes."""

    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    infos, data = b"", b""
    for name, encoding, columns, inner, raw in tensors:
        data += b"\0" * (-len(data) % 32)
        infos += text(name) + struct.pack("<IQQIQ", 2, inner, columns, FORMATS[encoding][0], len(data))
        data += raw
    keys = text("general.architecture") + struct.pack("<I", 8) + text("test")
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + keys + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def module_of(columns, inner, encodings, first=0):
    x, y = f"tensor<?x{inner}xf32>", f"tensor<?x{columns}xf32>"
    weights = "".join(
        f"""
  %w{i} = kvcache.weight "w{first + i}" : {weight_type(columns, inner, encoding)}
  %y{i} = linalg.matmul indexing_maps = [#mk, #nk, #mn] ins(%x, %w{i} : {x}, {weight_type(columns, inner, encoding)}) outs(%start : {y}) -> {y}"""
        for i, encoding in enumerate(encodings)
    )
    body = "%s = arith.addf %a, %b : f32"
    operands = "%r, %y0"
    if len(encodings) == 2:
        operands = "%y0, %y1"
        body = """%n = arith.negf %a : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %q = arith.divf %a, %d : f32
    %s = arith.mulf %q, %b : f32"""
    return f"""
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#both = affine_map<(m, n) -> (m, n)>
func.func @f(%x: {x}, %r: {y}) -> {y} {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %rows = tensor.dim %x, %c0 : {x}
  %empty = tensor.empty(%rows) : {y}
  %start = linalg.fill ins(%zero : f32) outs(%empty : {y}) -> {y}{weights}
  %z = linalg.generic {{indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]}}
      ins({operands} : {y}, {y}) outs(%empty : {y}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    {body}
    linalg.yield %s : f32
  }} -> {y}
  return %z : {y}
}}
"""


def weight_type(columns, inner, encoding):
    suffix = "" if encoding == "f32" else f', #kvcache.encoded<"{encoding}">'
    return f"tensor<{columns}x{inner}xf32{suffix}>"


def run(kvc_run, module, weights, prefix, device, x, r):
    files = [f"{prefix}.{what}.npy" for what in ("x", "r", "y")]
    np.save(files[0], x)
    np.save(files[1], r)
    command = [kvc_run, "module", module, "--function", "f", "--weights", weights, "--device", device]
    command += ["--inputs", f"{files[0]},{files[1]}", "--outputs", files[2]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return np.load(files[2]).astype(np.float64)


def reference(x, r, w):
    """The result and the size of what is added up."""
    y = [x @ one.T for one in w]
    sizes = [np.abs(x) @ np.abs(one).T for one in w]
    if len(w) == 1:
        return r + y[0], np.abs(r) + sizes[0]
    gate = y[0] / (1 + np.exp(-np.clip(y[0], -700, 700)))
    # The derivative of silu is at most 1.1; the exponential of a GPU is good to a few units of f32.
    return gate * y[1], 1.1 * sizes[0] * np.abs(y[1]) + np.abs(gate) * sizes[1] + 1e-3 * sizes[0] * sizes[1]


def check(name, kvc_run, folder, device, row_counts, large, fast):
    columns, inner, encodings = CASES[name]
    random = np.random.default_rng(7)
    module, weights = folder / f"{name}.mlir", folder / f"{name}.gguf"
    text = module_of(columns, inner, encodings)
    if fast:
        maps, function = text.split("func.func", 1)
        text = f'{maps}module attributes {{tile.linear_accuracy = "fast"}} {{ func.func{function} }}'
    module.write_text(text)
    write_gguf(weights, [(f"w{i}", e, columns, inner, random_weight(e, columns, inner, random)) for i, e in enumerate(encodings)])
    w = []
    for i, encoding in enumerate(encodings):
        single = folder / f"{name}.w{i}.mlir"
        single.write_text(module_of(columns, inner, [encoding], first=i))
        identity, zeros = np.eye(inner, dtype=np.float32), np.zeros((inner, columns), dtype=np.float32)
        w.append(run(kvc_run, single, weights, folder / name, "cpu", identity, zeros).T)
    worst = 0.0
    for rows in row_counts:
        x = random.normal(size=(rows, inner)).astype(np.float32)
        if large:
            x *= np.where(random.random(x.shape) < 0.1, 1e5, 1e-3).astype(np.float32)
        r = random.normal(size=(rows, columns)).astype(np.float32)
        got = run(kvc_run, module, weights, folder / name, device, x, r)
        if got.shape != (rows, columns) or not np.isfinite(got).all():
            return np.inf
        want, size = reference(x.astype(np.float64), r.astype(np.float64), w)
        worst = max(worst, np.max(np.abs(got - want) / size, initial=0))
    return worst


def main():
    arguments = sys.argv[1:]
    rows = [0, 1, 3, 16, 17, 130]
    large, fast = "--large" in arguments, "--fast" in arguments
    arguments = [a for a in arguments if a not in ("--large", "--fast")]
    if "--rows" in arguments:
        at = arguments.index("--rows")
        rows = [int(n) for n in arguments[at + 1].split(",")]
        del arguments[at : at + 2]
    kvc_run, folder, device = arguments[0], Path(arguments[1]), arguments[2]
    names = arguments[3:] or list(CASES)
    passed = 0
    for name in names:
        error = check(name, kvc_run, folder, device, rows, large, fast)
        good = LIMIT < error < FAST_LIMIT if fast else error < LIMIT
        passed += int(good)
        print(f"{name}: {error:.2g}{'' if good else ' FAILED'}", flush=True)
    print(f"{passed} passed, {len(names) - passed} failed")
    return int(passed != len(names))


if __name__ == "__main__":
    sys.exit(main())

# Runs attention kernels of an NVIDIA target on the simulator and compares them with the oracle.
"""`check_attention.py KVC_COMPILE KVC_RUN KVC_SIM FOLDER TARGET [case...]`: for every case a module is compiled to PTX,
the kernels of its attention are launched as the plan would, on pages that hold garbage where no slot is in use, and the
result is compared with `kvc-run module --reference` on the same keys and values.

`check_attention.py --device DEVICE KVC_RUN FOLDER [case...]`: append and attention run as one function on a device."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# A span of a decode step has at least so many slots; a processor runs so many teams side by side; processors of chips.
SPLIT, TEAMS = 1024, 2
PROCESSORS = {"sm_80": 108, "sm_90a": 132}
# Words of the record of a span, and of a list.
SPAN_WORDS, LIST_WORDS = 6, 2


@dataclass
class Case:
    name: str
    lengths: list  # slots of each sequence
    rows: list  # query rows of each sequence, its newest
    dim: int = 128
    v_dim: int = 0
    heads: int = 2
    group: int = 4
    page: int = 16
    format: str = "f16"
    mask: str = "causal"
    score: str = ""
    scale: float = 0.125


CASES = [
    Case("decode", [64], [1]),
    Case("decode_ragged", [1, 63, 64, 65, 200], [1, 1, 1, 1, 1]),
    Case("decode_split", [2500, 1024, 1025, 3], [1, 1, 1, 1], heads=1),
    Case("decode_split_heads", [1500, 1024], [1, 1]),
    Case("prefill", [64], [64]),
    Case("prefill_ragged", [5, 64, 100, 131, 0], [5, 2, 33, 131, 0]),
    Case("prefill_long", [330], [130]),
    Case("prefill_tiles", [700, 1, 520], [70, 1, 130], heads=1, page=32),
    Case("mixed", [300, 17, 1], [1, 17, 1], heads=1),
    Case("no_mask", [70, 5], [3, 1], mask=""),
    Case("window", [260, 40], [20, 1], mask="causal, window = 33 : i64"),
    Case("window_sinks", [260, 40], [20, 1], mask="causal, window = 33 : i64, sinks = 4 : i64"),
    Case("dim64", [150, 64], [40, 1], dim=64),
    Case("dim80", [150, 64], [40, 1], dim=80),
    Case("dim96", [150], [40], dim=96, heads=1),
    Case("dim192", [100, 40], [70, 1], dim=192, heads=1),
    Case("dim256", [100, 40], [70, 1], dim=256, heads=1),
    Case("mla", [70, 40], [9, 1], dim=576, v_dim=512, heads=1, group=16),
    Case("v_dim", [150, 70], [40, 1], dim=64, v_dim=96, heads=1),
    Case("page5", [150, 64], [40, 1], page=5, heads=1),
    Case("page1", [40, 64], [40, 1], page=1, heads=1),
    Case("page64", [150, 64], [40, 1], page=64, heads=1),
    Case("page24", [150, 64], [40, 1], page=24, heads=1),
    Case("group1", [70, 64], [70, 1], group=1),
    Case("group3", [70, 64], [40, 1], group=3, heads=1),
    Case("group7", [70, 64], [40, 1], group=7, heads=1),
    Case("group16", [70, 64], [9, 1], group=16, heads=1),
    Case("group20", [70, 64], [9, 1], group=20, heads=1),
    Case("bf16", [150, 64], [40, 1], format="bf16", heads=1),
    Case("soft_cap", [150, 64], [40, 1], heads=1, score="soft_cap"),
]


def bf16_bits(x):
    """Round to nearest even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def module_of(case):
    v_dim = case.v_dim or case.dim
    dims = f"dim = {case.dim}" + (f", v_dim = {v_dim}" if v_dim != case.dim else "")
    q = f"tensor<?x{case.heads * case.group}x{case.dim}xf32>"
    out = f"tensor<?x{case.heads * case.group}x{v_dim}xf32>"
    lse = f"tensor<?x{case.heads * case.group}xf32>"
    k, v = f"tensor<?x{case.heads}x{case.dim}xf32>", f"tensor<?x{case.heads}x{v_dim}xf32>"
    attributes = f"scale = {case.scale} : f32" + (f", {case.mask}" if case.mask else "")
    results = f"({out}, {lse})"
    region = ""
    if case.score == "soft_cap":
        region = """ score {
  ^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index):
    %t = kvcache.soft_cap %s, 5.0
    kvcache.yield %t
  }"""
    cache = f"!kv = !kvcache.cache<heads = {case.heads}, {dims}, page = {case.page}, k = {case.format}, v = {case.format}>\n"
    attention = f"""  %o:2 = kvcache.attention %q over %c1 at %b returns (out, lse) {{{attributes}}}{region} : ({q}, !kv, !kvcache.batch) -> {results}
  return %o#0, %o#1 : {out}, {lse}
}}
"""
    kernels = f"{cache}func.func @attend(%q: {q}, %c1: !kv, %b: !kvcache.batch) -> {results} {{\n{attention}"
    reference = f"""{cache}func.func @attend(%k: {k}, %v: {v}, %new: !kvcache.batch, %q: {q}, %c: !kv, %b: !kvcache.batch) -> {results} {{
  %c1 = kvcache.append %c, %k, %v at %new : !kv, {k}, {v}
{attention}"""
    return kernels, reference


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def maps_of(line, arguments):
    """Arguments of kvc-sim for the tensor maps of a kernel, whose line that is, over `arguments`: pairs of name and bytes."""
    words = []
    for i, text in enumerate(re.findall(r"#tile\.boxes<(.*?)>", line)):
        numbers = {key: value.strip("[]").replace(" ", "") for key, value in re.findall(r"(\w+) = (\[.*?\]|\d+)", text)}
        name, size = arguments[int(numbers["argument"])]
        blocks = max(1, size // int(numbers["strides"].split(",")[-1]))
        words += ["--arg", f"map_{i}=map:{name}+{numbers['offset']}/{numbers['extents']},{blocks}/{numbers['strides']}/"
                  f"{numbers['box']}/{numbers['swizzle']}"]
    return words


def launch(sim, ptx, kernel, target, grid, team, staging, arrays, outs, folder, line=""):
    words = []
    for name, value, sizes in arrays:
        if isinstance(value, int):
            words += ["--arg", f"{name}=u64:{value}"]
            continue
        np.save(folder / f"{name}.npy", value)
        words += ["--arg", f"{name}={folder}/{name}.npy"]
        for i, size in enumerate(sizes):
            words += ["--arg", f"{name}_{i}=u64:{size}"]
    words += maps_of(line, [(name, sizes[0] if sizes else 0) for name, _, sizes in arrays])
    command = [sim, ptx, "--kernel", kernel, "--grid", f"{grid},1,1", "--block", f"{team},1,1", "--target", target,
               "--json", "--instructions"] + words
    if staging:
        command += ["--smem", staging]
    for name in outs:
        command += ["--out", f"{name}={folder}/{name}.npy"]
    report = run(command)
    return [np.load(folder / f"{name}.npy") for name in outs], json.loads(report)


def reference_of(case, run_tool, folder):
    """Writes the modules and the arrays of a case, and runs the oracle; returns the arrays and the command's inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    seed = np.random.default_rng(len(case.name) * 1000 + case.dim + sum(case.lengths))
    v_dim, n, heads = case.v_dim or case.dim, len(case.lengths), case.heads
    for name, text in zip(("f.mlir", "reference.mlir"), module_of(case)):
        (folder / name).write_text(text)
    rows, slots = sum(case.rows), sum(case.lengths)
    arrays = {
        "k": seed.standard_normal((slots, heads, case.dim)).astype(np.float32),
        "v": seed.standard_normal((slots, heads, v_dim)).astype(np.float32),
        "new_offsets": np.concatenate([[0], np.cumsum(case.lengths)]).astype(np.int32),
        "new_sequences": np.arange(n, dtype=np.int32),
        "new_positions": np.concatenate([np.arange(l) for l in case.lengths]).astype(np.int32),
        "q": seed.standard_normal((rows, heads * case.group, case.dim)).astype(np.float32),
        "offsets": np.concatenate([[0], np.cumsum(case.rows)]).astype(np.int32),
        "sequences": np.arange(n, dtype=np.int32),
        "positions": np.concatenate([np.arange(l - r, l) for l, r in zip(case.lengths, case.rows)]).astype(np.int32),
    }
    for name, value in arrays.items():
        np.save(folder / f"in_{name}.npy", value)
    inputs = ",".join(f"{folder}/in_{name}.npy" for name in arrays)
    call(run_tool, folder, inputs, "ref", ["--reference"])
    return arrays, inputs, seed


def call(run_tool, folder, inputs, prefix, options):
    outputs = f"{folder}/{prefix}_out.npy,{folder}/{prefix}_lse.npy"
    run([run_tool, "module", folder / "reference.mlir", "--function", "attend", "--inputs", inputs, "--outputs", outputs]
        + options)


def compare(case, out, lse, folder, quiet=False):
    # f16: 11 bits of q, k, v and p each; bf16: 8.
    bound = {"f16": 4e-3, "bf16": 3e-2}[case.format]
    expected, expected_lse = np.load(folder / "ref_out.npy"), np.load(folder / "ref_lse.npy")
    error = np.abs(out - expected).max(initial=0)
    if not error <= bound:
        where = np.argwhere(~(np.abs(out - expected) <= bound))
        raise SystemExit(f"{case.name}: expects an error of at most {bound}, but got {error} at {len(where)} places, first "
                         f"{where[:4].tolist()}")
    both = np.isneginf(lse) & np.isneginf(expected_lse)
    lse_error = np.abs(np.where(both, 0, lse) - np.where(both, 0, expected_lse)).max(initial=0)
    if not lse_error <= 4 * bound:
        raise SystemExit(f"{case.name}: expects an error of the log-sum-exp of at most {4 * bound}, but got {lse_error}")
    if not quiet:
        print(f"{case.name}: error {error:.2e}")


def check_on_device(case, run_tool, folder, device):
    folder = folder / case.name
    _, inputs, _ = reference_of(case, run_tool, folder)
    call(run_tool, folder, inputs, "device", ["--device", device])
    compare(case, np.load(folder / "device_out.npy"), np.load(folder / "device_lse.npy"), folder)


def prepare(case, tools, folder, target):
    """Compiles a case; returns what launches PTX on its pages and gives the output and the log-sum-exp."""
    compile_tool, run_tool, sim = tools
    arrays, _, seed = reference_of(case, run_tool, folder)
    k, v, q, new_offsets = (arrays[name] for name in ("k", "v", "q", "new_offsets"))
    offsets, sequences, positions = (arrays[name] for name in ("offsets", "sequences", "positions"))
    v_dim, n, heads, group = case.v_dim or case.dim, len(case.lengths), case.heads, case.group
    rows = sum(case.rows)

    # Pages: natural rows of 16-bit elements, keys then values; NaN where no slot is in use.
    table_width = max(1, max(-(-l // case.page) for l in case.lengths))
    pages_in_use = sum(-(-l // case.page) for l in case.lengths)
    align = lambda x, a: -(-x // a) * a
    k_bytes, v_bytes = align(case.page * case.dim * 2, 16), align(case.page * v_dim * 2, 16)
    head_bytes = k_bytes + v_bytes
    page_bytes = align(head_bytes * heads, 64)
    pool = np.full((pages_in_use + 2, page_bytes // 2), 0x7FFF if case.format == "f16" else 0xFFFF, np.uint16)
    table = np.full((n, table_width), -1, np.int32)
    free = list(seed.permutation(pages_in_use + 2))
    to_bits = (lambda x: x.astype(np.float16).view(np.uint16)) if case.format == "f16" else bf16_bits
    for i, length in enumerate(case.lengths):
        for slot in range(length):
            if slot % case.page == 0:
                table[i, slot // case.page] = free.pop()
            page = pool[table[i, slot // case.page]]
            for h in range(heads):
                base, row = h * head_bytes // 2, slot % case.page
                page[base + row * case.dim: base + (row + 1) * case.dim] = to_bits(k[new_offsets[i] + slot, h])
                at = base + k_bytes // 2 + row * v_dim
                page[at: at + v_dim] = to_bits(v[new_offsets[i] + slot, h])
    lengths = np.array(case.lengths, np.int32)

    run([compile_tool, folder / "f.mlir", "--emit=ptx", f"--target={target}", "-o", folder / "f.ptx"])
    lanes = run([compile_tool, folder / "f.mlir", "--emit=vector", f"--target={target}"])
    kernels = {name: next(l for l in lanes.splitlines() if f"func.func private @{name}(" in l) for name in ("attention", "attention_decode")}
    number = lambda name, what: int(re.split(r"[ ,}]", kernels[name].split(f"{what} = ")[1])[0])
    tokens = number("attention", "prefill_tokens")
    # As the plan of the function says: a bound of the spans, and tiles of tokens where entries have several rows.
    teams, most_of_list = max(1, TEAMS * PROCESSORS[target] // heads), -(-max([1] + case.lengths) // SPLIT)
    parts = min(n * most_of_list, n + teams)
    tiles = -(-max(case.rows) // tokens) if max(case.rows) > 1 else 0
    nan = lambda *shape: np.full(shape, np.nan, np.float32)
    batch = [("offsets", offsets, [n + 1]), ("sequences", sequences, [n]), ("positions", positions, [rows])]
    cache = [("pages", pool.reshape(-1).view(np.uint8), [pool.nbytes]), ("table", table, [n, table_width]),
             ("lengths", lengths, [n]), ("sealed", lengths, [n]), ("tails", np.zeros(64, np.uint8), [0]),
             ("tail_table", np.full(n, -1, np.int32), [n])]
    outs = [("out", nan(rows, heads * group, v_dim), [rows]), ("lse", nan(rows, heads * group), [rows])]
    partials = [("partial_out", nan(parts, heads * group, v_dim), [parts]), ("partial_lse", nan(parts, heads * group), [parts])]
    warp = 32

    def attend(ptx, name, grid, own, arrays):
        results, _ = launch(sim, ptx, name, target, grid, number(name, "tile.team"), number(name, "tile.staging"),
                            [("query", q, [rows])] + batch + own + cache + arrays, [name for name, _, _ in arrays], folder,
                            kernels[name])
        return [(name, result, sizes) for (name, _, sizes), result in zip(arrays, results)]

    def execute(ptx):
        plan = [("spans", np.full((parts, SPAN_WORDS), -1, np.int32), [parts]),
                ("lists", np.full((n, LIST_WORDS), -1, np.int32), [n])]
        (spans, lists), _ = launch(sim, ptx, "attention_plan", target, n, warp, 0, batch + [("teams", teams, [])] + cache + plan,
                                   ["spans", "lists"], folder)
        results = outs
        if tiles:
            results = attend(ptx, "attention", n * heads * tiles, [], results)
        results = attend(ptx, "attention_decode", parts * heads, [("spans", spans, [parts])], results + partials)
        if most_of_list > 1:
            merged, _ = launch(sim, ptx, "attention_merge", target, n * heads * group, warp, 0,
                               results[2:] + batch + [("lists", lists, [n])] + results[:2], ["out", "lse"], folder)
            return merged
        return [value for _, value, _ in results[:2]]

    return execute


def check(case, tools, folder, target):
    folder = folder / case.name
    out, lse = prepare(case, tools, folder, target)(folder / "f.ptx")
    compare(case, out, lse, folder)


def main():
    on_device = sys.argv[1] == "--device"
    wanted = sys.argv[5:] if on_device else sys.argv[6:]
    cases = [case for case in CASES if not wanted or case.name in wanted]
    if not cases:
        raise SystemExit(f"expects cases among {[case.name for case in CASES]}, but got {wanted}")
    for case in cases:
        if on_device:
            check_on_device(case, sys.argv[3], Path(sys.argv[4]), sys.argv[2])
        else:
            check(case, sys.argv[1:4], Path(sys.argv[4]), sys.argv[5])
    print(f"{len(cases)} passed")


if __name__ == "__main__":
    main()

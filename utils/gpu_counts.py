#!/usr/bin/env python3
# Exact counts of attention kernels on GPUs: the instructions of the real machine code, as often as the simulator runs them.
"""utils/bench --sim [--write] [--peers] [--filter TEXT]

Every case is one function (append, attention) that runs on a simulated GPU. On NVIDIA's the PTX that ran gets a `.loc`
line for each of its lines, ptxas makes machine code of it, and nvdisasm says which instruction came from which line: so
a basic block of machine code runs as often as the PTX instructions in it (the value that most of them have). Producer
warps, branches and loops outside of the innermost one count too. On AMD's the machine code itself runs: its instructions
are counted as they are. Bytes, sectors, wavefronts and matrix flops are the simulator's.

A case that names two lengths is the difference of both: the steady state of one more tile, exactly. The model of the time
is that of docs/gpu-efficiency.md; no figure is a measurement. The tables in that file are kept from rising; --write
replaces their rows. With --peers the same attention, written in Triton, is compiled and counted in the same run (the
first call fetches Triton). The last line is `N passed, N failed, N skipped`.
"""
import argparse
import collections
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import peer_counts
import sass
from sass import ROOT, run

DOC = ROOT / "docs" / "gpu-efficiency.md"
# A warp's m16n8k16: the unit of useful work on NVIDIA's GPUs; on AMD's it is a tile of so many query rows and slots.
MMA_FLOPS = 2 * 16 * 8 * 16
TILE_ROWS, TILE_SLOTS = 128, 64
# What counts as a rise: a compiler of another day may schedule a few instructions more.
SLACK = 1.005


@dataclass(frozen=True)
class Chip:
    """Cycles of one multiprocessor (four sub-partitions): matrix flops per cycle, cycles of a warp's f32 instruction,
    and DRAM bytes per cycle and multiprocessor (A100 40 GB: 1555 GB/s, 108, 1.41 GHz; H100 SXM: 3352, 132, 1.755)."""
    mma: int
    f32: float
    dram: float


CHIPS = {"sm_80": Chip(2048, 2, 10.2), "sm_90a": Chip(4096, 1, 14.5)}


@dataclass(frozen=True)
class Column:
    name: str
    digits: int = 3
    # "less", "more", or nothing: a part of another one, which may move.
    better: str = "less"

    def shown(self, value):
        return f"{value:.{0 if value >= 1000 else self.digits}f}"

    def is_worse(self, value, than):
        unit = 0.5 * 10 ** -(0 if than >= 1000 else self.digits)
        return value * SLACK + unit < than if self.better == "more" else value > than * SLACK + unit if self.better else False

    def meets(self, value, bar):
        """As it is shown: a share that prints as its bar is that."""
        value = float(self.shown(value))
        return value >= bar if self.better == "more" else value <= bar


NVIDIA = [Column("slots"), Column("U", better="more"), Column("smem"), Column("E", better="more"), Column("traffic"),
          Column("issue / dram"), Column("conflicts", 0)]
AMD = [Column("instructions", 0), *(Column(name, 0, "") for name in ("matrix", "exp", "vector", "scalar", "LDS", "memory", "waits")),
       Column("U", better="more"), Column("conflicts"), Column("lane bytes", 1, "more"), Column("traffic"), Column("ratio", 2),
       Column("scratch", 0)]
TABLES = {"sm_80": NVIDIA, "sm_90a": NVIDIA, "gfx942": AMD, "gfx950": AMD, "gfx1100": AMD}
# What the simulator counts, by AMD's columns.
AMD_CLASSES = {"matrix": ("matrix",), "exp": ("transcendental",), "vector": ("vector", "packed", "cross-lane"),
               "scalar": ("scalar", "scalar load", "branch"), "LDS": ("LDS read", "LDS write", "LDS atomic"),
               "memory": ("load", "store", "atomic"), "waits": ("wait", "barrier", "other")}


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # prefill (per useful matrix instruction or tile), decode (per 1000 keys and KV head, or per tile's slots)
    target: str
    keys: tuple
    rows: int  # 0: as many as keys
    fields: str = "page = 16, k = f16, v = f16"
    dim: int = 128
    kv_heads: int = 1
    group: int = 1
    causal: bool = True
    bits: float = 16  # of a stored element with its scales
    # The case whose instructions are 1 in the column "ratio".
    base: str = ""
    # What the same work of others is called (peer_counts.py); empty: nobody has it.
    peer: str = ""
    bars: dict = field(default_factory=dict, hash=False)


KIVI4 = "page = 32, k = int4<axis = channel>, v = int4, residual = 128, tail = f32"
KIVI2 = "page = 32, k = int2<axis = channel>, v = int2, residual = 128, tail = f32"


def cases():
    for target in CHIPS:
        yield from nvidia_cases(target)
    for target in TABLES:
        if TABLES[target] is AMD:
            yield from amd_cases(target)


def nvidia_cases(target):
    old = target == "sm_80"
    yield Case("prefill hd128 f16", "prefill", target, (512, 1024), 128, causal=False, peer="prefill hd128",
               bars={"slots": 3.85 if old else 1.8, "U": 0.965, "E": 0.95, "smem": 0.75})
    yield Case("prefill hd128 f16 causal, S = 4096", "prefill", target, (4096,), 0, bars={"slots": 4.4 if old else 2.2})
    yield Case("prefill hd128 f16 causal, page 256, S = 4096", "prefill", target, (4096,), 0, "page = 256, k = f16, v = f16",
               peer="prefill hd128 causal", bars={"slots": 4.15 if old else 2.0})
    yield Case("prefill hd64 f16", "prefill", target, (512, 1024), 128, dim=64, causal=False, peer="prefill hd64",
               bars={"slots": 4.9, "E": 0.94} if old else {"E": 0.94})
    yield Case("prefill hd128 KIVI int4", "prefill", target, (1024, 1536), 128, KIVI4, causal=False,
               bars={"slots": 5.5} if old else {})
    for group in (4, 8):
        if group == 4:
            yield Case("decode hd128 f16, group 4", "decode", target, (2048, 4096), 1, group=4, peer="decode hd128",
                       bars={"traffic": 1.02, "slots": 15000})
        for bits, bar in ((8, 0.6), (4, 0.9), (2, 1.0)):
            page = KIVI2 if bits == 2 else f"page = 32, k = int{bits}, v = int{bits}"
            yield Case(f"decode hd128 int{bits}, group {group}", "decode", target, (2048, 4096), 1, page, group=group,
                       bits=bits + 1, bars={"issue / dram": bar})


def amd_cases(target):
    # What differs on later chips is what they multiply and copy with. Bars of instructions are for waves of 64 lanes.
    is_whole, is_rdna = target == "gfx942", target == "gfx1100"
    bars = lambda instructions: {} if is_rdna else {"instructions": instructions}
    for dim, bar in ((64, 1100), (128, 1900)):
        plain = f"prefill hd{dim} f16"
        yield Case(plain, "prefill", target, (512, 1024), 128, dim=dim, causal=False, peer=f"prefill hd{dim}",
                   bars=bars(bar) | {"U": 1, "conflicts": 0.05, "scratch": 0})
        if is_whole:
            yield Case(f"{plain} causal, S = 4096", "prefill", target, (4096,), 0, dim=dim, base=plain,
                       peer=f"prefill hd{dim} causal", bars={"ratio": 1.15, "conflicts": 0.05, "scratch": 0})
    plain = "decode hd128 f16, group 4"
    yield Case(plain, "decode", target, (2048, 4096), 1, group=4, peer="decode hd128",
               bars=bars(998) | {"traffic": 1.02, "scratch": 0})
    if is_whole or is_rdna:
        yield Case("decode hd128 KIVI int4, group 4", "decode", target, (2048, 4096), 1, KIVI4, group=4, bits=5, base=plain,
                   bars={"ratio": 1.6, "scratch": 0})


MODULE = """\
!kv = !kvcache.cache<heads = {h}, dim = {d}, {fields}>
func.func @f(%k: tensor<?x{h}x{d}xf32>, %v: tensor<?x{h}x{d}xf32>, %new: !kvcache.batch, %q: tensor<?x{n}x{d}xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x{n}x{d}xf32> {{
  %c1 = kvcache.append %c, %k, %v at %new : !kv, tensor<?x{h}x{d}xf32>, tensor<?x{h}x{d}xf32>
  %o = kvcache.attention %q over %c1 at %b {{scale = 0.088388 : f32{causal}}} : (tensor<?x{n}x{d}xf32>, !kv, !kvcache.batch) -> tensor<?x{n}x{d}xf32>
  return %o : tensor<?x{n}x{d}xf32>
}}
"""


@dataclass
class Counts:
    """Instructions by class, sums of the simulator, and what does not add up: registers and scratch memory."""
    classes: collections.Counter = field(default_factory=collections.Counter)
    totals: collections.Counter = field(default_factory=collections.Counter)
    resources: dict = field(default_factory=dict)

    def minus(self, other):
        return Counts(collections.Counter({k: v - other.classes[k] for k, v in self.classes.items()}),
                      collections.Counter({k: v - other.totals[k] for k, v in self.totals.items()}), self.resources)

    def add(self, report, target, ptx, folder):
        """A launch of the simulator's report; `ptx` is what ran on NVIDIA's."""
        if TABLES[target] is AMD:
            self.classes.update(report["classes"])
            for name, value in report["resources"].items():
                self.resources[name] = max(value, self.resources.get(name, 0))
            # How many bytes of a lane the loads have that bring the bytes.
            for instruction in report["instructions"]:
                if instruction["text"].startswith(("global_load", "buffer_load", "flat_load")) and instruction["lanes"]:
                    loaded = instruction.get("bytes", 0)
                    self.totals["loaded"] += loaded
                    self.totals["loaded_by_width"] += loaded * loaded // instruction["lanes"]
        else:
            self.classes.update(sass.counted(ptx, target, report["kernel"], report["instructions"], folder))
        self.totals.update(report["totals"])


def measure(build, folder, case, keys):
    rows = case.rows or keys
    (folder / "f.mlir").write_text(MODULE.format(h=case.kv_heads, d=case.dim, fields=case.fields,
                                                 n=case.kv_heads * case.group, causal=", causal" if case.causal else ""))
    random = np.random.default_rng(1)
    arrays = [random.standard_normal((keys, case.kv_heads, case.dim)).astype("f"),
              random.standard_normal((keys, case.kv_heads, case.dim)).astype("f"),
              np.array([0, keys], "i4"), np.array([0], "i4"), np.arange(keys, dtype="i4"),
              random.standard_normal((rows, case.kv_heads * case.group, case.dim)).astype("f"),
              np.array([0, rows], "i4"), np.array([0], "i4"), np.arange(keys - rows, keys, dtype="i4")]
    for i, array in enumerate(arrays):
        np.save(folder / f"{i}.npy", array)
    report = folder / "report"
    report.unlink(missing_ok=True)
    # One compiler makes what runs and what is counted: nothing comes from an older one's cache.
    compiler = [build / "bin/kvc-compile", folder / "f.mlir", f"--target={case.target}", "--no-cache"]
    run(compiler + ["-o", folder / "f.kvca"])
    ptx = ""
    if TABLES[case.target] is NVIDIA:
        run(compiler + ["--emit=ptx", "-o", folder / "f.ptx"])
        ptx = (folder / "f.ptx").read_text()
    run([build / "bin/kvc-run", "module", folder / "f.kvca", "--function", "f", "--inputs",
         ",".join(f"{folder}/{i}.npy" for i in range(len(arrays))), "--outputs", folder / "out.npy", "--capacity", keys,
         "--device", f"sim:{case.target}"],
        KVCSIM_REPORT=str(report), KVCSIM_INSTRUCTIONS="on", KVCSIM_CHECKS="none")
    counts = Counts()
    for entry in map(json.loads, report.read_text().splitlines()):
        if entry["kernel"].startswith("attention"):
            counts.add(entry, case.target, ptx, folder)
    return counts


def count_peer(build, folder, case, variant, keys):
    report, ptx = peer_counts.launch(build, folder, case, variant, keys)
    counts = Counts()
    counts.add(report, case.target, ptx, folder)
    return counts


def difference(case, count):
    """Counts of a case and the keys that they are for; `count` gives those of some number of keys."""
    counts = [count(keys) for keys in case.keys]
    return (counts[1].minus(counts[0]), case.keys[1] - case.keys[0]) if len(counts) == 2 else (counts[0], case.keys[0])


def pairs_of(case, keys):
    """Pairs of a query row and a slot, of one head, in `keys` more slots."""
    if case.kind == "prefill" and case.causal:
        # Tiles of 64 x 64 that somebody sees.
        tiles = keys // 64
        return 64 * 64 * tiles * (tiles + 1) // 2
    return keys * (case.rows or keys)


def nvidia_figures(case, counts, keys):
    chip, totals = CHIPS[case.target], counts.totals
    slots = sum(counts.classes.values())
    useful = 4 * case.dim * pairs_of(case, keys) * case.kv_heads * case.group
    cycles = {"tensor": totals["mma_flops"] / chip.mma, "issue": slots / 4, "f32": counts.classes["f32"] * chip.f32 / 4,
              "mufu": counts.classes["mufu"] * 8 / 4, "smem": totals["shared_wavefronts"]}
    ideal_bytes = keys * case.kv_heads * 2 * case.dim * case.bits / 8
    result = {"conflicts": totals["shared_conflicts"]}
    if case.kind == "prefill":
        result["slots"] = slots / (useful / MMA_FLOPS)
        result["U"] = useful / totals["mma_flops"]
        result["smem"] = cycles["smem"] / cycles["tensor"]
        result["E"] = (useful / chip.mma) / max(cycles.values())
    else:
        result["slots"] = slots / (keys / 1000 * case.kv_heads)
        if case.bits == 16:
            result["traffic"] = totals["global_load_sectors"] * 32 / ideal_bytes
        result["issue / dram"] = cycles["issue"] / (ideal_bytes / chip.dram)
    return result


def amd_figures(case, counts, keys):
    totals = counts.totals
    pairs = pairs_of(case, keys)
    units = keys * case.kv_heads / TILE_SLOTS
    if case.kind == "prefill":
        units = pairs * case.kv_heads * case.group / (TILE_ROWS * TILE_SLOTS)
    result = {name: sum(counts.classes[c] for c in classes) / units for name, classes in AMD_CLASSES.items()}
    result["instructions"] = totals["instructions"] / units
    result["U"] = 4 * case.dim * pairs * case.kv_heads * case.group / totals["mma_flops"]
    result["conflicts"] = totals["shared_conflicts"] / max(1, totals["shared_ideal_wavefronts"])
    result["lane bytes"] = totals["loaded_by_width"] / totals["loaded"]
    if case.kind == "decode" and case.bits == 16:
        result["traffic"] = totals["global_load_sectors"] * 32 / (keys * case.kv_heads * 4 * case.dim)
    result["scratch"] = counts.resources["private_bytes"]
    return result


def figures(case, counts, keys):
    """What the table shows of a case; `keys` is how many more keys the counts are for."""
    return (amd_figures if TABLES[case.target] is AMD else nvidia_figures)(case, counts, keys)


def row(case, got, peer):
    cells = [case.target, case.name]
    for column in TABLES[case.target]:
        name = column.name
        cell = column.shown(got[name]) if name in got else ""
        if name in case.bars:
            bar = case.bars[name]
            cell += f" ({'>=' if column.better == 'more' else '<='} {bar:g}{'' if column.meets(got[name], bar) else ': miss'})"
        cells.append(cell)
    return "| " + " | ".join([*cells, peer]) + " |"


def peer_cell(case, got):
    """The first column of the table and U, of the peer's kernel."""
    columns = TABLES[case.target]
    return f"{columns[0].shown(got[columns[0].name])}" + (f", U {got['U']:.3f}" if "U" in got else "")


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_table():
    """Figures by target and name, and the peers' cells."""
    rows, peers = {}, {}
    for line in DOC.read_text().splitlines():
        cells = cells_of(line) if line.startswith("|") else []
        columns = TABLES.get(cells[0] if cells else "")
        if columns and len(cells) == 3 + len(columns):
            key = cells[0], cells[1]
            rows[key] = {c.name: float(cell.split()[0]) for c, cell in zip(columns, cells[2:-1]) if cell}
            peers[key] = cells[-1]
    return rows, peers


def write_table(lines):
    """Replaces or adds the rows in `lines`, each in the table of its target; rows of cases that are gone go."""
    known = [(case.target, case.name) for case in cases()]
    text = DOC.read_text().splitlines()
    for columns in (NVIDIA, AMD):
        begin = next(i for i, line in enumerate(text) if cells_of(line)[:3] == ["target", "kernel", columns[0].name]) + 2
        end = begin
        while end < len(text) and text[end].startswith("|"):
            end += 1
        rows = {tuple(cells_of(line)[:2]): line for line in text[begin:end]}
        rows.update(lines)
        text[begin:end] = [rows[key] for key in known if key in rows and TABLES[key[0]] is columns]
    DOC.write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="utils/bench --sim")
    parser.add_argument("--write", action="store_true", help="replace the rows of docs/gpu-efficiency.md")
    parser.add_argument("--peers", action="store_true", help="count Triton's kernels, too")
    parser.add_argument("--filter", action="append", help="only cases with this (or one of several) in `target name`")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    options = parser.parse_args()
    table, peer_cells = read_table()
    lines, counted, printed, passed, failed = {}, {}, None, 0, 0
    everything = {(case.target, case.name): case for case in cases()}

    def figures_of(case, folder):
        key = case.target, case.name
        if key not in counted:
            counted[key] = figures(case, *difference(case, lambda keys: measure(options.build, folder, case, keys)))
            if case.base:
                base = figures_of(everything[case.target, case.base], folder)
                counted[key]["ratio"] = counted[key]["instructions"] / base["instructions"]
        return counted[key]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, case in everything.items():
            if not any(text in " ".join(key) for text in options.filter or [""]):
                continue
            columns = TABLES[case.target]
            if printed is not columns:
                print("| target | kernel | " + " | ".join(column.name for column in columns) + " | Triton |")
                printed = columns
            got = figures_of(case, folder)
            if options.peers and case.peer:
                peers = [figures(case, *difference(case, lambda keys, v=variant: count_peer(options.build, folder, case, v, keys)))
                         for variant in peer_counts.variants(case)]
                peer_cells[key] = peer_cell(case, min(peers, key=lambda got: got[columns[0].name]))
            lines[key] = row(case, got, peer_cells.get(key, ""))
            print(lines[key], flush=True)
            old = table.get(key, {} if options.write else None)
            if old is None:
                failed += 1
                print("  expects a row in docs/gpu-efficiency.md: utils/bench --sim --write")
                continue
            risen = [f"{c.name} {old[c.name]:g} -> {got[c.name]:g}" for c in columns
                     if c.name in old and c.name in got and not options.write and c.is_worse(got[c.name], old[c.name])]
            passed, failed = passed + (not risen), failed + bool(risen)
            if risen:
                print("  worse than in docs/gpu-efficiency.md: " + ", ".join(risen))
    if options.write:
        write_table(lines)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

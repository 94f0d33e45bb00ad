#!/usr/bin/env python3
# Exact counts of attention kernels on NVIDIA targets: the instructions of the real cubin, as often as the simulator runs them.
"""utils/bench --sim [--write] [--filter TEXT]

Every case is one function (append, attention) that runs on a simulated GPU. The PTX that ran gets a `.loc` line for each
of its lines, ptxas makes machine code of it, and nvdisasm says which instruction came from which line: so a basic block
of machine code runs as often as the PTX instructions in it (the value that most of them have). Producer warps, branches
and loops outside of the innermost one count too. Bytes, sectors, wavefronts and matrix flops are the simulator's.

A case that names two lengths is the difference of both: the steady state of one more tile, exactly. The model of the time
is that of docs/gpu-efficiency.md; no figure is a measurement. The table in that file is kept from rising; --write
replaces it. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "gpu-efficiency.md"
# A warp's m16n8k16: the unit of useful work.
MMA_FLOPS = 2 * 16 * 8 * 16
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
class Case:
    name: str
    kind: str  # prefill (per useful matrix instruction), decode (per 1000 keys and KV head)
    target: str
    keys: tuple
    rows: int  # 0: as many as keys
    fields: str = "page = 16, k = f16, v = f16"
    dim: int = 128
    kv_heads: int = 1
    group: int = 1
    causal: bool = True
    bits: float = 16  # of a stored element with its scales
    bars: dict = field(default_factory=dict, hash=False)


def cases():
    kivi4 = "page = 32, k = int4<axis = channel>, v = int4, residual = 128, tail = f32"
    for target in CHIPS:
        old = target == "sm_80"
        yield Case("prefill hd128 f16", "prefill", target, (512, 1024), 128, causal=False,
                   bars={"slots": 3.85 if old else 1.8, "U": 0.965, "E": 0.95, "smem": 0.75})
        yield Case("prefill hd128 f16 causal, S = 4096", "prefill", target, (4096,), 0,
                   bars={"slots": 4.4 if old else 2.2})
        yield Case("prefill hd128 f16 causal, page 256, S = 4096", "prefill", target, (4096,), 0,
                   "page = 256, k = f16, v = f16", bars={"slots": 4.15 if old else 2.0})
        yield Case("prefill hd64 f16", "prefill", target, (512, 1024), 128, dim=64, causal=False,
                   bars={"slots": 4.9, "E": 0.94} if old else {"E": 0.94})
        yield Case("prefill hd128 KIVI int4", "prefill", target, (1024, 1536), 128, kivi4, causal=False,
                   bars={"slots": 5.5} if old else {})
        for group in (4, 8):
            if group == 4:
                yield Case("decode hd128 f16, group 4", "decode", target, (2048, 4096), 1, group=4,
                           bars={"traffic": 1.02, "slots": 15000})
            for bits, bar in ((8, 0.6), (4, 0.9), (2, 1.0)):
                page = f"page = 32, k = int{bits}, v = int{bits}"
                if bits == 2:
                    page = "page = 32, k = int2<axis = channel>, v = int2, residual = 128, tail = f32"
                yield Case(f"decode hd128 int{bits}, group {group}", "decode", target, (2048, 4096), 1, page, group=group,
                           bits=bits + 1, bars={"issue / dram": bar})


MODULE = """\
!kv = !kvcache.cache<heads = {h}, dim = {d}, {fields}>
func.func @f(%k: tensor<?x{h}x{d}xf32>, %v: tensor<?x{h}x{d}xf32>, %new: !kvcache.batch, %q: tensor<?x{n}x{d}xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x{n}x{d}xf32> {{
  %c1 = kvcache.append %c, %k, %v at %new : !kv, tensor<?x{h}x{d}xf32>, tensor<?x{h}x{d}xf32>
  %o = kvcache.attention %q over %c1 at %b {{scale = 0.088388 : f32{causal}}} : (tensor<?x{n}x{d}xf32>, !kv, !kvcache.batch) -> tensor<?x{n}x{d}xf32>
  return %o : tensor<?x{n}x{d}xf32>
}}
"""


def tool(name):
    folders = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"), os.environ.get("PATH", ""),
               "/usr/local/cuda/bin", str(ROOT / ".cache/cuda/bin")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        raise SystemExit(f"gpu_counts: expects {name} of a CUDA toolkit, but found none; utils/setup fetches it")
    return found


def run(command, **environment):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


# Classes of machine instructions, by the beginnings of their names; what fits none is "int".
CLASSES = [("mma", ("HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA")), ("mufu", ("MUFU",)),
           ("f32", ("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSET", "FCHK")),
           ("f16", ("HADD2", "HFMA2", "HMUL2", "HMNMX2", "HSET", "F2FP", "F2F", "I2F", "F2I", "I2FP")),
           ("shared", ("LDSM", "LDS", "STS", "STSM")), ("copy", ("LDGSTS", "LDG", "STG", "LDGDEPBAR", "UTMA", "UBLK")),
           ("shfl", ("SHFL",)), ("bar", ("BAR", "SYNCS", "WARPSYNC", "DEPBAR"))]


def class_of(opcode):
    return next((name for name, prefixes in CLASSES if opcode.startswith(prefixes)), "int")


STATEMENT = re.compile(r"^\s*(@!?[%\w]+\s+)?[a-z][\w.:]*(\s|;)")


def with_lines(ptx):
    """The text with its own numbers of lines as the only line information."""
    result, depth = [], 0
    for number, line in enumerate(ptx.splitlines(), 1):
        text = line.strip()
        if text.startswith((".loc", ".file")):
            continue
        # Pieces of assembly have scopes of their own within a kernel's.
        depth += (text == "{") - (text == "}")
        if depth and STATEMENT.match(line):
            result.append(f".loc 1 {number} 0")
        result.append(line)
        if text.startswith(".address_size"):
            result.append('.file 1 "kernel.ptx"')
    return "\n".join(result) + "\n"


@dataclass
class Block:
    """A basic block of machine code: opcodes with their lines of the PTX, its label and the one it ends in a branch to."""
    label: str = ""
    code: list = field(default_factory=list)
    target: str = ""

    def tries(self):
        return any("TRYWAIT" in opcode for opcode, _ in self.code)


def machine_code(ptx, target, kernel, folder):
    """Blocks of a kernel."""
    (folder / "lines.ptx").write_text(with_lines(ptx))
    run([tool("ptxas"), f"-arch={target}", "-lineinfo", folder / "lines.ptx", "-o", folder / "lines.cubin"])
    path = os.pathsep.join([os.environ.get("PATH", ""), str(Path(tool("nvdisasm")).parent)])
    text = run([tool("nvdisasm"), "-c", "-g", folder / "lines.cubin"], PATH=path)
    blocks, line, inside = [Block()], 0, False
    for entry in text.splitlines():
        if entry.startswith(".section") or entry.lstrip().startswith(".section"):
            inside = f".text.{kernel}," in entry
        elif entry.startswith(f".text.{kernel}:"):
            inside = True
        if not inside:
            continue
        if entry.startswith("$__internal"):
            # A subroutine of the assembler: what division does with numbers near the ends of the range. It has no lines,
            # and no case comes there.
            line = 0
            blocks.append(Block())
            continue
        found = re.search(r'//## File ".*?", line (\d+)', entry)
        if found:
            line = int(found.group(1))
            continue
        found = re.match(r"^(\.L_\w+):", entry)
        if found:
            blocks.append(Block(found.group(1)))
            continue
        found = re.match(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", entry)
        if found:
            opcode = found.group(1)
            blocks[-1].code.append((opcode, line))
            if opcode.split(".")[0] in ("BRA", "EXIT", "BRX", "RET", "CALL"):
                to = re.search(r"`\((\.L_\w+)\)", entry)
                blocks[-1].target = to.group(1) if to else ""
                blocks.append(Block())
    return [block for block in blocks if block.code or block.label]


def waits(ptx):
    """Lines of loops that wait for a phase, a try and the branch back to it, by their lines."""
    groups, lines = {}, ptx.splitlines()
    for number, line in enumerate(lines, 1):
        if "mbarrier.try_wait" in line:
            group = frozenset({number, number + 1} if " bra" in lines[number] else {number})
            groups.update(dict.fromkeys(group, group))
    return groups


def frequencies(blocks, issued, groups):
    """How often each block runs: as often as most of its lines were issued, where there are some those of which the
    assembler made no copies elsewhere. A wait is a try and, elsewhere, a loop that tries again: that runs as often as the
    line was issued beyond the first tries. The simulator puts a waiting warp aside until the phase is over, so that is 0
    unless a try gives up."""
    result = []
    copies = collections.Counter(line for block in blocks for line in {line for _, line in block.code})
    for block in blocks:
        lines = [line for _, line in block.code if line in issued]
        votes = collections.Counter(issued[line] for line in lines if copies[line] == 1)
        votes = votes or collections.Counter(issued[line] for line in lines)
        # A tie goes to the rarer: what was moved out of a loop came from more often.
        result.append(min(votes, key=lambda value: (-votes[value], value)) if votes else 0)
    places = {block.label: i for i, block in enumerate(blocks) if block.label}
    group_of = [next((groups[line] for _, line in block.code if line in groups), None) for block in blocks]
    first = {}
    for i, block in enumerate(blocks):
        if not block.tries() or block.target in ("", block.label):
            continue
        # A failed try branches to the next ones, maybe through a block in front of their loop.
        j = places.get(block.target, i)
        path = [j]
        while not blocks[j].tries() and not blocks[j].target and j + 1 < len(blocks):
            j += 1
            path.append(j)
        if j != i and blocks[j].tries() and group_of[j]:
            first[group_of[j]] = result[i], path
    for i, block in enumerate(blocks):
        group = next((group for group, (_, path) in first.items() if i in path), None)
        if not group and group_of[i] in first and all(line in group_of[i] for _, line in block.code):
            group = group_of[i]
        if group:
            result[i] = max(0, max(issued.get(line, 0) for line in group) - first[group][0])
    return result


def weighted(blocks, issued, groups):
    """Instructions by class, each as often as its block runs."""
    sums = collections.Counter()
    for block, often in zip(blocks, frequencies(blocks, issued, groups)):
        for opcode, _ in block.code:
            if opcode == "NOP":
                continue
            sums[class_of(opcode)] += often
    return sums


@dataclass
class Counts:
    classes: collections.Counter
    totals: collections.Counter

    def minus(self, other):
        return Counts(collections.Counter({k: v - other.classes[k] for k, v in self.classes.items()}),
                      collections.Counter({k: v - other.totals[k] for k, v in self.totals.items()}))


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
    run(compiler + ["--emit=ptx", "-o", folder / "f.ptx"])
    run([build / "bin/kvc-run", "module", folder / "f.kvca", "--function", "f", "--inputs",
         ",".join(f"{folder}/{i}.npy" for i in range(len(arrays))), "--outputs", folder / "out.npy", "--capacity", keys,
         "--device", f"sim:{case.target}"],
        KVCSIM_REPORT=str(report), KVCSIM_INSTRUCTIONS="on", KVCSIM_CHECKS="none")
    ptx = (folder / "f.ptx").read_text()
    lines = ptx.splitlines()
    classes, totals = collections.Counter(), collections.Counter()
    for entry in map(json.loads, report.read_text().splitlines()):
        if not entry["kernel"].startswith("attention"):
            continue
        issued = {}
        for instruction in entry["instructions"]:
            if not instruction["line"]:
                continue  # the end of a kernel that has none
            text = next(word for word in instruction["text"].split() if not word.startswith("@")).rstrip(";")
            if text not in lines[instruction["line"] - 1]:
                raise SystemExit(f"gpu_counts: expects `{text}` in line {instruction['line']} of {folder}/f.ptx, but got "
                                 f"`{lines[instruction['line'] - 1].strip()}`: not what the simulator ran")
            issued[instruction["line"]] = max(issued.get(instruction["line"], 0), instruction["issued"])
        sums = weighted(machine_code(ptx, case.target, entry["kernel"], folder), issued, waits(ptx))
        classes.update(sums)
        totals.update(entry["totals"])
    return Counts(classes, totals)


def figures(case, counts, keys):
    """What the table shows of a case; `keys` is how many more keys the counts are for."""
    chip, totals = CHIPS[case.target], counts.totals
    slots = sum(counts.classes.values())
    heads = case.kv_heads * case.group
    if case.kind == "prefill":
        pairs = keys * (case.rows or keys)
        if case.causal:
            # Tiles of 64 x 64 that somebody sees.
            tiles = keys // 64
            pairs = 64 * 64 * tiles * (tiles + 1) // 2
        useful = 4 * case.dim * pairs * heads
    else:
        useful = 4 * case.dim * keys * heads
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


# Larger is better.
GROWING = ("U", "E")
COLUMNS = ("slots", "U", "smem", "E", "traffic", "issue / dram", "conflicts")


def shown(name, value):
    return f"{value:.0f}" if name == "conflicts" or value >= 1000 else f"{value:.3f}"


def row(case, got):
    cells = [case.target, case.name]
    for name in COLUMNS:
        cell = shown(name, got[name]) if name in got else ""
        if name in case.bars:
            bar = case.bars[name]
            met = got[name] >= bar if name in GROWING else got[name] <= bar
            cell += f" ({'>=' if name in GROWING else '<='} {bar:g}{'' if met else ': miss'})"
        cells.append(cell)
    return "| " + " | ".join(cells) + " |"


def read_table():
    rows = {}
    for line in DOC.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 + len(COLUMNS) and cells[0] in CHIPS:
            rows[cells[0], cells[1]] = {name: float(cell.split()[0]) for name, cell in zip(COLUMNS, cells[2:]) if cell}
    return rows


def main():
    parser = argparse.ArgumentParser(prog="utils/bench --sim")
    parser.add_argument("--write", action="store_true", help="replace the rows of docs/gpu-efficiency.md")
    parser.add_argument("--filter", default="", help="only cases with this in `target name`")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    options = parser.parse_args()
    table, lines, passed, failed = read_table(), {}, 0, 0
    print("| target | kernel | " + " | ".join(COLUMNS) + " |")
    with tempfile.TemporaryDirectory() as name:
        for case in cases():
            if options.filter not in f"{case.target} {case.name}":
                continue
            counts = [measure(options.build, Path(name), case, keys) for keys in case.keys]
            if len(counts) == 2:
                got = figures(case, counts[1].minus(counts[0]), case.keys[1] - case.keys[0])
            else:
                got = figures(case, counts[0], case.keys[0])
            lines[case.target, case.name] = row(case, got)
            print(lines[case.target, case.name], flush=True)
            old = table.get((case.target, case.name), {} if options.write else None)
            if old is None:
                failed += 1
                print("  expects a row in docs/gpu-efficiency.md: utils/bench --sim --write")
                continue
            risen = [f"{key} {old[key]:g} -> {value:g}" for key, value in got.items() if key in old and not options.write
                     and (value * SLACK + 5e-4 < old[key] if key in GROWING else value > old[key] * SLACK + 5e-4)]
            passed, failed = passed + (not risen), failed + bool(risen)
            if risen:
                print("  worse than in docs/gpu-efficiency.md: " + ", ".join(risen))
    if options.write:
        text = DOC.read_text().splitlines()
        begin = next(i for i, line in enumerate(text) if line.startswith("| target | kernel |")) + 2
        end = begin
        while end < len(text) and text[end].startswith("|"):
            end += 1
        kept = {}
        for line in text[begin:end]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            kept[cells[0], cells[1]] = line
        kept.update(lines)
        DOC.write_text("\n".join(text[:begin] + list(kept.values()) + text[end:]) + "\n")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# Runs the kernel that plans a decode step on the simulator, and compares it with the rule in NumPy.
"""`decode_plan.py KVC_COMPILE KVC_SIM FOLDER TARGET`: the plans of many batches are the rule's (docs/rationale/gpu.md, "Spans
of a decode step"): every slot that a row sees lies in one span, none is empty, those of a list differ by a tile at most,
there are no more than the host's bound, none is longer than it has to be. The order of blocks and warps changes nothing.
The mutants (mutation.py) break the same kernel."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

KERNEL = "attention_plan"
LEAST, PLANS = 1024, 24
HEADS, PAGE, DIM = 2, 16, 64
# name: mask, window, further fields of the cache, lists of an entry
FORMS = {"plain": ("", 0, "", 1), "causal": (", causal", 0, "", 1), "window": (", causal, window = 700 : i64", 700, "", 1),
         "per_head": ("", 0, ", tables = per_head", HEADS)}
WORDS = ("count", "list", "sequence", "row", "begin", "end")

MODULE = """\
!kv = !kvcache.cache<heads = {heads}, dim = {dim}, page = {page}, k = f16, v = f16{fields}>
func.func @f(%q: tensor<?x{heads}x{dim}xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x{heads}x{dim}xf32> {{
  %o = kvcache.attention %q over %c at %b {{scale = 0.125 : f32{mask}}} : (tensor<?x{heads}x{dim}xf32>, !kv, !kvcache.batch) -> tensor<?x{heads}x{dim}xf32>
  return %o : tensor<?x{heads}x{dim}xf32>
}}
"""


class Failure(Exception):
    """A kernel that does not run, or a plan that is not the rule's."""


def expect(holds, what):
    if not holds:
        raise Failure(f"expects {what}")


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failure(f"{done.stderr}{done.stdout}of {' '.join(map(str, command))}")
    return done.stdout


class Batch:
    """Rows of entries and slots of their tables, drawn, and a number of teams."""

    def __init__(self, seed, tables, entries, longest, teams):
        self.rows = seed.choice([0, 1, 1, 1, 1, 5], entries).astype(np.int32)
        # Rows have been appended: a table has as many slots at least.
        lengths = np.maximum(seed.integers(0, longest + 1, (entries, tables)), self.rows[:, None]).astype(np.int32)
        lengths[seed.random((entries, tables)) < 0.3] //= 50
        self.lengths = np.maximum(lengths, self.rows[:, None])
        self.teams = teams
        self.offsets = np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int32)
        self.sequences = seed.permutation(entries).astype(np.int32)
        # A row stands at the end of its table.
        self.positions = np.concatenate([np.arange(length - r, length) for r, length in zip(self.rows, self.lengths[:, 0])] +
                                        [np.zeros(1)]).astype(np.int32)
        of_longest = -(-max(1, int(self.lengths.max())) // LEAST)
        self.bound = min(self.lengths.size * of_longest, self.lengths.size + self.teams)

    def arguments(self):
        stored = np.zeros_like(self.lengths)
        stored[self.sequences] = self.lengths
        words = stored.reshape(-1)
        return {"offsets": self.offsets, "sequences": self.sequences, "positions": self.positions, "teams": self.teams,
                "pages": np.zeros(64, np.uint8), "table": np.zeros((words.size, 1), np.int32), "lengths": words,
                "sealed": words, "tails": np.zeros(64, np.uint8), "tail_table": np.zeros(words.size, np.int32),
                "spans": np.full((self.bound, len(WORDS)), -1, np.int32), "lists": np.full((words.size, 2), -1, np.int32)}

    def plan(self, slots, window):
        """Records of all spans, and first span and number of spans of all lists."""
        tables = self.lengths.shape[1]
        firsts, tiles = [], []
        for number, length in enumerate(self.lengths.reshape(-1).tolist()):
            row = int(self.offsets[number // tables])
            decodes = self.rows[number // tables] == 1
            first = max(0, int(self.positions[row]) - window + 1) // slots if window and decodes else 0
            firsts.append(first)
            tiles.append(max(1, -(-length // slots) - first) if decodes else 0)
        share = max(-(-LEAST // slots), -(-sum(tiles) // self.teams))
        counts = [-(-t // share) for t in tiles]
        if sum(counts) > self.teams:
            counts = [max(t // share, min(t, 1)) for t in tiles]
        spans, lists = [], []
        for number, (first, of_list, count) in enumerate(zip(firsts, tiles, counts)):
            lists.append((len(spans), count))
            for i in range(count):
                size = of_list // count + (i < of_list % count)
                expect(0 < size < 2 * share, f"a span between nothing and twice a team's share of {share} tiles, but got {size}")
                spans.append((count, number, int(self.sequences[number // tables]), int(self.offsets[number // tables]), first, first + size))
                first += size
        expect(len(spans) <= self.bound, f"at most {self.bound} spans, but got {len(spans)}")
        return np.array(spans, np.int32).reshape(-1, len(WORDS)), np.array(lists, np.int32)


class PlanKernel:
    """The kernel of one of FORMS for a target."""

    def __init__(self, compile_tool, sim, folder, target, form):
        mask, self.window, fields, self.tables = FORMS[form]
        self.sim, self.folder, self.target = sim, folder, target
        self.source = folder / f"{form}.mlir"
        self.source.write_text(MODULE.format(heads=HEADS, dim=DIM, page=PAGE, fields=fields, mask=mask))

        def emit(what):
            return run([compile_tool, self.source, f"--emit={what}", f"--target={target}"])
        self.assembly = emit("asm")
        # Keys of the decode body's tiles come first.
        self.slots = int(re.search(r"tile\.operand\s+k\s+pages.*?-> <(\d+)", emit("tile")).group(1))
        self.lanes = int(emit("vector").split(f"@{KERNEL}(")[1].split("tile.team = ")[1].split(" ")[0].rstrip(",}"))

    def launch(self, code, batch, options=()):
        """What the kernel of a file of PTX or machine code makes (spans, lists), and what the simulator prints."""
        arguments = batch.arguments()
        command = [self.sim, code, "--kernel", KERNEL, "--grid", f"{batch.lengths.size},1,1", "--block", f"{self.lanes},1,1",
                   "--target", self.target, *options]
        for name, value in arguments.items():
            if isinstance(value, int):
                command += ["--arg", f"{name}=u64:{value}"]
                continue
            np.save(self.folder / f"{name}.npy", value)
            command += ["--arg", f"{name}={self.folder}/{name}.npy"]
            # Dynamic dimensions: all of a rank, but the words of a record.
            sizes = value.shape[:1] if name in ("spans", "lists") else value.shape
            for i, size in enumerate(sizes):
                command += ["--arg", f"{name}_{i}=u64:{size}"]
        printed = run(command + [word for name in ("spans", "lists") for word in ("--out", f"{name}={self.folder}/{name}.out.npy")])
        return [np.load(self.folder / f"{name}.out.npy") for name in ("spans", "lists")], printed

    def check(self, code, batch, options=()):
        """The number of spans, and what the simulator prints. Raises Failure."""
        (spans, lists), printed = self.launch(code, batch, options)
        expected, expected_lists = batch.plan(self.slots, self.window)
        for number, (got, want) in enumerate(zip(lists, expected_lists)):
            expect(np.array_equal(got, want), f"first span and number {want} of list {number}, but got {got}")
        for number, (got, want) in enumerate(zip(spans, expected)):
            expect(np.array_equal(got, want), f"{dict(zip(WORDS, want))} as span {number}, but got {dict(zip(WORDS, got))}")
        expect(not spans[len(expected):, 0].any(), "no work behind the spans that are used")
        return len(expected), printed


def main():
    compile_tool, sim, folder, target = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    total = most = 0
    for form in FORMS:
        kernel = PlanKernel(compile_tool, sim, folder, target, form)
        code = folder / f"{form}.code"
        emit = "ptx" if target.startswith("sm_") else "object"
        run([compile_tool, kernel.source, f"--emit={emit}", f"--target={target}", "-o", code])
        seed = np.random.default_rng(7)
        for number in range(PLANS):
            batch = Batch(seed, kernel.tables, int(seed.integers(1, 70)), int(seed.choice([1, 300, 5000, 200000])),
                          int(seed.choice([1, 2, 13, 108, 300])))
            used, _ = kernel.check(code, batch)
            if number % 8 == 0:
                kernel.check(code, batch, ["--reverse", "--seed", "3"])
            total, most = total + used, max(most, used)
    expect(total > 1000 and most > 100, f"plans of many spans, but got {total}, at most {most} of one")
    print(f"{len(FORMS) * PLANS} plans, {total} spans")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        raise SystemExit(str(failure))

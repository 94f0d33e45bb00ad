# Runs the kernel that plans a decode step on the simulator, and checks how it divides the slots.
"""`check_plan.py KVC_COMPILE KVC_SIM FOLDER TARGET`: every slot that a row sees lies in exactly one span, no span is empty,
the spans of a list differ by a tile at most, there are no more than the host's bound, none is longer than it has to be, and
the order of blocks and warps changes nothing."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

LEAST, PLANS = 1024, 24
HEADS, PAGE, DIM = 2, 16, 64
# name, mask, window, further fields of the cache, lists of an entry
FORMS = [("plain", "", 0, "", 1), ("causal", ", causal", 0, "", 1), ("window", ", causal, window = 700 : i64", 700, "", 1),
         ("per_head", "", 0, ", tables = per_head", HEADS)]
WORDS = ("count", "list", "sequence", "row", "begin", "end")

MODULE = """\
!kv = !kvcache.cache<heads = {heads}, dim = {dim}, page = {page}, k = f16, v = f16{fields}>
func.func @f(%q: tensor<?x{heads}x{dim}xf32>, %c: !kv, %b: !kvcache.batch) -> tensor<?x{heads}x{dim}xf32> {{
  %o = kvcache.attention %q over %c at %b {{scale = 0.125 : f32{mask}}} : (tensor<?x{heads}x{dim}xf32>, !kv, !kvcache.batch) -> tensor<?x{heads}x{dim}xf32>
  return %o : tensor<?x{heads}x{dim}xf32>
}}
"""


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds, what):
    if not holds:
        raise SystemExit(f"expects {what}")


def draw(seed, lists):
    """Rows of the entries, slots of the tables and teams."""
    entries = int(seed.integers(1, 70))
    rows = seed.choice([0, 1, 1, 1, 1, 5], entries).astype(np.int32)
    longest = int(seed.choice([1, 300, 5000, 200000]))
    # Rows have been appended: a table has as many slots at least.
    lengths = np.maximum(seed.integers(0, longest + 1, (entries, lists)), rows[:, None]).astype(np.int32)
    lengths[seed.random((entries, lists)) < 0.3] //= 50
    lengths = np.maximum(lengths, rows[:, None])
    return rows, lengths, int(seed.choice([1, 2, 13, 108, 300]))


def launch(sim, code, target, folder, lanes, arguments, outs, options=()):
    command = [sim, code, "--kernel", "attention_plan", "--grid", f"{arguments['lists'].shape[0]},1,1", "--block", f"{lanes},1,1",
               "--target", target, *options]
    for name, value in arguments.items():
        if isinstance(value, int):
            command += ["--arg", f"{name}=u64:{value}"]
            continue
        np.save(folder / f"{name}.npy", value)
        command += ["--arg", f"{name}={folder}/{name}.npy"]
        # Dynamic dimensions: all of a rank, but the words of a record.
        sizes = value.shape[:1] if name in ("spans", "lists") else value.shape
        for i, size in enumerate(sizes):
            command += ["--arg", f"{name}_{i}=u64:{size}"]
    run(command + [word for name in outs for word in ("--out", f"{name}={folder}/{name}.out.npy")])
    return [np.load(folder / f"{name}.out.npy") for name in outs]


def check(spans, lists, rows, lengths, positions, offsets, sequences, teams, slots, window, least):
    tables = lengths.shape[1]
    all_lists = lengths.size
    extents = []
    for number in range(all_lists):
        entry, head = divmod(number, tables)
        length = int(lengths[entry, head])
        first = max(0, int(positions[offsets[entry]]) - window + 1) // slots if window and rows[entry] == 1 else 0
        extents.append((first, max(1, -(-length // slots) - first)) if rows[entry] == 1 else (0, 0))
    total = sum(tiles for _, tiles in extents)
    share = max(least, -(-total // teams))
    used = 0
    for number, ((first, tiles), (begin, count)) in enumerate(zip(extents, lists)):
        expect(begin == used, f"the spans of list {number} from {used} on, but got {begin}")
        expect((count == 0) == (tiles == 0), f"spans exactly for entries with one row, but got {count} for list {number}")
        used += count
        sizes = []
        for at, record in enumerate(spans[begin:begin + count]):
            span = dict(zip(WORDS, map(int, record)))
            entry = number // tables
            expect(span["count"] == count and span["list"] == number and span["sequence"] == sequences[entry]
                   and span["row"] == offsets[entry], f"a record of list {number}, but got {span}")
            expect(span["begin"] == first, f"span {at} of list {number} from tile {first} on, but got {span}")
            expect(span["end"] > span["begin"], f"no empty span, but got {span}")
            first = span["end"]
            sizes.append(span["end"] - span["begin"])
        if tiles:
            expect(sum(sizes) == tiles, f"{tiles} tiles of list {number}, but got {sum(sizes)}")
            expect(max(sizes) - min(sizes) <= 1, f"equal spans, but got {sizes}")
            expect(max(sizes) < 2 * share, f"spans below twice a team's share of {share} tiles, but got {max(sizes)}")
            expect(count <= -(-tiles // least), f"at most {-(-tiles // least)} spans of {tiles} tiles, but got {count}")
    expect(used <= len(spans), f"at most {len(spans)} spans, but got {used}")
    expect(not spans[used:, 0].any(), "no work behind the spans that are used")
    return used


def main():
    compile_tool, sim, folder, target = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    nvidia = target.startswith("sm_")
    total = most = 0
    for form, mask, window, fields, tables in FORMS:
        source, code = folder / f"{form}.mlir", folder / f"{form}.code"
        source.write_text(MODULE.format(heads=HEADS, dim=DIM, page=PAGE, fields=fields, mask=mask))
        run([compile_tool, source, f"--emit={'ptx' if nvidia else 'object'}", f"--target={target}", "-o", code])
        tile = run([compile_tool, source, "--emit=tile", f"--target={target}"])
        # Keys of the decode body's tiles come first.
        slots = int(re.search(r"tile\.operand\s+k\s+pages.*?-> <(\d+)", tile).group(1))
        lanes = int(run([compile_tool, source, "--emit=vector", f"--target={target}"]).split("@attention_plan(")[1]
                    .split("tile.team = ")[1].split(" ")[0].rstrip(",}"))
        seed = np.random.default_rng(7)
        for number in range(PLANS):
            rows, lengths, teams = draw(seed, tables)
            entries, longest = len(rows), max(1, int(lengths.max()))
            offsets = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
            sequences = seed.permutation(entries).astype(np.int32)
            # A row stands at the end of its table.
            positions = np.concatenate([np.arange(length - r, length) for r, length in zip(rows, lengths[:, 0])] +
                                       [np.zeros(1)]).astype(np.int32)
            stored = np.zeros_like(lengths)
            stored[sequences] = lengths
            bound = min(lengths.size * -(-longest // LEAST), lengths.size + teams)
            words = stored.reshape(-1)
            arguments = {"offsets": offsets, "sequences": sequences, "positions": positions, "teams": teams,
                         "pages": np.zeros(64, np.uint8), "table": np.zeros((words.size, 1), np.int32), "lengths": words,
                         "sealed": words, "tails": np.zeros(64, np.uint8), "tail_table": np.zeros(words.size, np.int32),
                         "spans": np.full((bound, len(WORDS)), -1, np.int32), "lists": np.full((words.size, 2), -1, np.int32)}
            results = launch(sim, code, target, folder, lanes, arguments, ["spans", "lists"])
            used = check(*results, rows, lengths, positions, offsets, sequences, teams, slots, window, -(-LEAST // slots))
            if number % 8 == 0:
                for again in zip(results, launch(sim, code, target, folder, lanes, arguments, ["spans", "lists"],
                                                 ["--reverse", "--seed", "3"])):
                    expect(np.array_equal(*again), "the same plan in every order of the blocks")
            total, most = total + used, max(most, used)
    expect(total > 1000 and most > 100, f"plans of many spans, but got {total}, at most {most} of one")
    print(f"{len(FORMS) * PLANS} plans, {total} spans")


if __name__ == "__main__":
    main()

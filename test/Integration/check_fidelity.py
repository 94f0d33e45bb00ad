# Compares kvc-run on a real model with reference data of other engines; the integration tests call it.
"""usage: check_fidelity.py greedy|logits|perplexity|starts|table KVC-RUN MODEL.gguf [options]    (--help of each)

Prints what it measured; exits with 1 when a value lies outside its tolerance. The data is test/Inputs/fidelity.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

INPUTS = Path(__file__).resolve().parent.parent / "Inputs" / "fidelity"
FORMATS = ("f32", "f16", "int8", "int4", "kivi-int4", "kivi-int2")
# The table beside them: what only the NumPy engine of make_draws.py is a reference for, on window 0.
COARSE = ("kivi-int3", "int3", "int2")
WINDOW = 2048
# Largest absolute error of a logit.
LOGITS = {"f32": 0.002, "f16": 0.03}
# Largest relative error of a perplexity: exact formats, decode-exact steps, and steps of the default chunk.
EXACT, DECODE, CHUNKED = 0.001, 0.0015, {"kivi-int2": 0.015}
CHUNKED_DEFAULT = 0.003
# Correct engines differ by more where a format is coarse (docs/fidelity.md, "spread"): as many deviations are accepted.
DEVIATIONS = 3
# Texts of a few tokens (make_draws.py): how large the median error may be beside the median distance from f32.
TEXTS, TEXT, START_ERROR = 512, 3, {"int8": 0.25, "int4": 0.05}


class Runner:
    """Runs kvc-run on one model."""

    def __init__(self, options):
        self.options = options
        self.folder = tempfile.TemporaryDirectory()

    def write_ids(self, ids):
        path = Path(self.folder.name) / "ids.json"
        path.write_text(json.dumps([int(i) for i in ids]))
        return str(path)

    def __call__(self, command, *arguments):
        line = [self.options.kvc_run, command, self.options.model, *arguments, "--threads", str(self.options.threads),
                "--json"]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"error: `{' '.join(line)}` failed with status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)


class Report:
    def __init__(self):
        self.failures = 0

    def line(self, ok, text):
        self.failures += not ok
        print(("ok    " if ok else "FAIL  ") + text, flush=True)


def load(name):
    return json.loads((INPUTS / name).read_text())


def greedy(run, report):
    """Ids equal those of the reference up to its first near tie (two logits less than 0.05 apart) or the end token."""
    for row in load("greedy-smollm2.json"):
        wanted = row["ids"][:min(row["near_ties"], default=len(row["ids"]))]
        if not wanted:
            print(f"skip  {row['name']}: the first step is a near tie")
            continue
        ids = run("generate", "--ids", run.write_ids(row["prompt_ids"]), "--max-tokens", str(len(wanted)), "--kv",
                  run.options.kv)["ids"]
        # The reference goes on after an end token; generate stops there, and only there.
        ends = len(ids) < len(wanted) and bool(ids) and ids[-1] in run.options.ends
        equal = next((i for i, (a, b) in enumerate(zip(ids, wanted)) if a != b), min(len(ids), len(wanted)))
        report.line(equal == len(ids) and (ends or len(ids) == len(wanted)),
                    f"{row['name']}: {equal} of {len(wanted)} ids equal" + (", then the end token" if ends else ""))


def logits(run, report):
    """The reference's 64 largest logits at each position."""
    for row in load("logits-smollm2.json"):
        if row["name"] not in run.options.sets:
            continue
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            run("logits", "--ids", run.write_ids(row["ids"]), "--positions", ",".join(map(str, row["positions"])),
                "--kv", run.options.kv, "-o", file.name)
            got = np.load(file.name)
        ids, wanted = np.array(row["top64_ids"]), np.array(row["top64_logits"])
        error = np.abs(np.take_along_axis(got.astype(np.float64), ids, axis=1) - wanted)
        same = int((got.argmax(1) == ids[:, 0]).sum())
        limit = LOGITS[run.options.kv]
        # A NaN is no error below the limit.
        report.line(bool((error <= limit).all()),
                    f"{row['name']}: {len(ids)} positions, largest error {error.max():.5f} (limit {limit}), mean "
                    f"{error.mean():.6f}, likeliest token equal at {same}")


def reference_perplexity(kv, window, length):
    """Perplexity of the first `length` tokens of a window, or None where there is no reference."""
    if kv in ("f32", "f16"):
        return float(np.exp(np.load(INPUTS / "nll-smollm2.npy")[window, :length - 1].astype(np.float64).mean()))
    if length == WINDOW:
        rows = [line.split("\t") for line in (INPUTS / "perplexity-smollm2.tsv").read_text().splitlines()[1:]]
        return next((float(value) for name, of, value in rows if (name, of) == (kv, str(window))), None)
    prefix = np.load(INPUTS / "prefix-smollm2.npz")
    if window or kv not in prefix or length - 1 > len(prefix[kv]):
        return None
    return float(np.exp(prefix[kv][:length - 1].astype(np.float64).mean()))


def target(kv, chunk):
    """The relative error that is aimed at."""
    if kv in ("f32", "f16"):
        return EXACT
    return DECODE if chunk == 1 else CHUNKED.get(kv, CHUNKED_DEFAULT)


def draws(kv):
    """Perplexities by the NumPy engine: a list for each window."""
    values = {}
    for line in (INPUTS / "draws-smollm2.tsv").read_text().splitlines():
        name, window, _, value = line.split("\t")
        if name == kv:
            values.setdefault(int(window), []).append(float(value))
    return values


def disturbed():
    """Perplexities by kvc with a disturbed weight: a list for each (format, window, chunk, relative error)."""
    values = {}
    for line in (INPUTS / "disturbed-smollm2.tsv").read_text().splitlines():
        kv, window, chunk, error, _, value = line.split("\t")
        values.setdefault((kv, int(window), int(chunk), error), []).append(float(value))
    return values


def disturbed_reference():
    """Perplexities by the reference's engine with a disturbed weight: a list for each (format, window, relative error)."""
    values = {}
    for line in (INPUTS / "reference-disturbed-smollm2.tsv").read_text().splitlines():
        kv, window, error, _, value = line.split("\t")
        values.setdefault((kv, int(window), error), []).append(float(value))
    return values


def deviation(lists):
    """Relative standard deviation within lists of perplexities, pooled; 0 where there are none."""
    squares = sum(np.var(np.log(each)) * len(each) for each in lists)
    freedom = sum(len(each) - 1 for each in lists)
    return float(np.sqrt(squares / freedom)) if freedom else 0.0


def spread(kv):
    """Relative standard deviation of correct engines on one window: the larger of that of NumPy runs and the reference,
    and that of disturbed runs of kvc."""
    lists = [[reference_perplexity(kv, window, WINDOW), *values] for window, values in draws(kv).items()]
    return max(deviation(lists), deviation([values for key, values in disturbed().items() if key[0] == kv]))


def tolerance(kv, length, chunk):
    """The relative error that is accepted."""
    return max(target(kv, chunk), DEVIATIONS * spread(kv) if length == WINDOW else 0)


def measure(run, kv, window, length, chunk):
    ids = np.load(INPUTS / "windows-smollm2.npy")[window, :length]
    return run("perplexity", "--ids", run.write_ids(ids), "--window", str(length), "--kv", kv, "--chunk",
               str(chunk))["perplexity"]


def perplexity(run, report):
    for kv in run.options.kv.split(","):
        for window in run.options.windows:
            wanted = reference_perplexity(kv, window, run.options.length)
            if wanted is None:
                sys.exit(f"error: no reference for --kv {kv}, window {window}, {run.options.length} tokens")
            got = measure(run, kv, window, run.options.length, run.options.chunk)
            limit = tolerance(kv, run.options.length, run.options.chunk)
            error = got / wanted - 1
            report.line(abs(error) <= limit,
                        f"{kv}: window {window}, {run.options.length} tokens, chunk {run.options.chunk}: {got:.4f}, "
                        f"expected {wanted:.4f}, {100 * error:+.3f} % (limit {100 * limit:.3g} %)")


def starts(run, report):
    """Perplexities of many short texts, in which a flipped code has hardly any influence yet: whoever quantises otherwise
    than the reference is off in all of them."""
    path = run.write_ids(np.load(INPUTS / "windows-smollm2.npy")[0, :TEXTS * TEXT])
    wanted = np.load(INPUTS / "starts-smollm2.npz")
    for kv in run.options.kv.split(","):
        distance = float(np.median(np.abs(wanted[kv] / wanted["f32"] - 1)))
        for chunk in (1, TEXT):
            got = np.array(run("perplexity", "--ids", path, "--window", str(TEXT), "--kv", kv, "--chunk",
                               str(chunk))["windows"])
            error = float(np.median(np.abs(got / wanted[kv] - 1)))
            report.line(error <= START_ERROR[kv] * distance,
                        f"{kv}: {TEXTS} texts of {TEXT} tokens, chunk {chunk}: median error {100 * error:.4f} %, "
                        f"{error / distance:.3f} of the distance from f32 (limit {START_ERROR[kv]})")


TABLE_HEAD = """# Fidelity

Perplexity of SmolLM2-135M-Instruct (Q4_1) by `kvc-run perplexity` on three windows of 2048 tokens, against references
that other engines made (`test/Inputs/fidelity/README.md` says how). Activations are f32, weights are dequantised
exactly. *Chunk 1* appends one token per step: what decoding sees. *Chunk 512* is the default of the command.

Written by `check_fidelity.py table`, from measurements of the same script:

    .venv/bin/python test/Integration/check_fidelity.py table build/bin/kvc-run MODEL.gguf -o docs/fidelity.md

| KV format | window | reference | chunk 1 | error | chunk 512 | error | spread |
|---|---|---|---|---|---|---|---|
"""

TABLE_FOOT = """
Targets: f32 and f16 {exact:g} %; quantised, chunk 1: {decode:g} %; chunk 512: {chunked:g} % (kivi-int2: {int2:g} %). *Off* is outside
the target and outside {deviations} spreads; *in spread* is outside the target only.

**Spread**: the relative standard deviation of correct engines on a window, the larger of two: of the reference and runs of an
independent NumPy engine (`make_draws.py`) that differ by an error of 1e-7 in the embedded tokens; and of runs of kvc
(`make_disturbed.py`, below). Rounding to a code is not continuous: a value at the boundary of two codes goes to one or the
other by the last bit of a sum, and from there on every later key differs by a step. Where the steps are coarse (int4 of
every token at once, kivi-int2) no two orders of summation agree on a window: the error of a single window says nothing below
its spread, for any engine, and the reference is one draw of many. kivi-int4, which keeps the newest 128 tokens exact, is
far steadier.

## The same engine, disturbed

The weights of the first norm are multiplied by 1 + *error* e, with e from a normal distribution: an error far below that of f16,
which an f32 cache passes on as it is. *z*: how many standard deviations the reference lies from the mean of these runs
(for int3: of the NumPy engine).

| KV format | window | chunk | error | runs | median | lowest | highest | deviation | undisturbed | reference | z |
|---|---|---|---|---|---|---|---|---|---|---|---|
{disturbed}
That the runs of one chunk with the smaller error lie closer together than those with the larger one, and beside those of the
other chunk, has the same reason: they share most of their close decisions. With the larger error both chunks have one distribution.
The same holds of the NumPy engine: on window 1 its runs of kivi-int2 with the smaller error lie beside the reference (14.189,
14.185), and with the larger one at 14.109 and 14.084.

## The reference's engine, disturbed

The engine that made the reference (transformers in float32 with an attention function that quantises), with the same error in
the weights of its first norm. Its own runs miss the target of decode-exact steps ({decode:g} %) as well: no engine can meet it but by
the same sums in the same order.

| KV format | window | error | runs | lowest | highest | reference | lowest error | highest error |
|---|---|---|---|---|---|---|---|---|
{reference}
## The reference's engine over the codes that kvc stored

A run is right when the same caches give the same likelihoods, and when the caches are those that the method stores. Both were checked for
window 0, in steps of 1: the contents of all caches (30 layers) were exported at the end, the reference's engine took them
in place of what it would have stored, and compared them with that.

| KV format | perplexity by kvc | by the reference's engine over kvc's codes | largest difference of a likelihood | codes that differ | each by | farthest from the boundary of two codes |
|---|---|---|---|---|---|---|
| int4 | 4.97287 | 4.97283 | 1.5e-4 | 742 of 23592960 | one step | 0.0095 steps |
| kivi-int2 | 6.15433 | 6.15429 | 2.3e-4 | 195 of 22118400 | one step | 0.0027 steps |

So all of the difference to the reference is in those few codes, each of which was as near to the one as to the other as the last bits of
float32 sums are. (Likelihoods of kivi-int2 also depend on what was exact when it was read; that is taken from the reference's engine.)

What was compared besides, on window 0, for int8, int4, kivi-int4 and kivi-int2, in steps of 1 and of 512 tokens: the keys and
values of layer 0 that an f32 cache exports, quantised in NumPy by the formulas of [formats](spec/formats.md), are those that the
quantised cache exports, bit for bit (2048 tokens; layer 0 depends on no cache). And a query sees the same slots quantised as in
NumPy: with kivi-int2, likelihoods differ by 4e-6 before the first group is sealed (token 159), by 3e-4 just after, no more at
the tokens where a group is sealed than at others, and grow from there by a factor of about 2 in each 128 tokens.

## Coarser formats

Window 0; the reference is the NumPy engine alone.

| KV format | reference | chunk 1 | error | chunk 512 | error |
|---|---|---|---|---|---|
{coarse}
## Tests

So that a wrong quantiser shows all the same, `check_fidelity.py starts` compares {texts} texts of {text} tokens, most of which no flipped
code has reached yet, and `perplexity --length 256` the first tokens after KIVI caches begin to seal.
"""


def disturbed_rows(known):
    text = ""
    for (kv, window, chunk, error), values in disturbed().items():
        wanted = reference_perplexity(kv, window, WINDOW) or draws(kv)[window][0]
        own = known.get((kv, window, chunk))
        sigma = deviation([values])
        z = (np.log(wanted) - np.mean(np.log(values))) / sigma if kv not in ("f32", "f16") else None
        text += (f"| {kv} | {window} | {chunk} | {error} | {len(values)} | {np.median(values):.4f} | {min(values):.4f} | "
                 f"{max(values):.4f} | {100 * sigma:.2g} % | {f'{own:.4f}' if own else ''} | "
                 f"{wanted:.4f} | {f'{z:+.1f}' if z is not None else ''} |\n")
    return text


def disturbed_reference_rows():
    text = ""
    for (kv, window, error), values in disturbed_reference().items():
        wanted = reference_perplexity(kv, window, WINDOW)
        text += (f"| {kv} | {window} | {error} | {len(values)} | {min(values):.4f} | {max(values):.4f} | {wanted:.4f} | "
                 f"{100 * (min(values) / wanted - 1):+.2f} % | {100 * (max(values) / wanted - 1):+.2f} % |\n")
    return text


def coarse_rows(known):
    text = ""
    for kv in COARSE:
        wanted, cells = draws(kv)[0][0], []
        for chunk in (1, 512):
            value = known.get((kv, 0, chunk))
            cells += [f"{value:.4f}", f"{100 * (value / wanted - 1):+.2f} %"] if value else ["not measured", ""]
        text += f"| {kv} | {wanted:.4f} | " + " | ".join(cells) + " |\n"
    return text


def table(run, report):
    """Measures every format, window and chunk that --results does not hold yet, and writes the table."""
    results = Path(run.options.results)
    known = {}
    if results.exists():
        for line in results.read_text().splitlines():
            kv, window, chunk, value = line.split("\t")[:4]
            known[kv, int(window), int(chunk)] = float(value)
    def measured(kv, window, chunk):
        key = (kv, window, chunk)
        if key not in known and not run.options.known_only:
            known[key] = measure(run, kv, window, WINDOW, chunk)
            with open(results, "a") as file:
                file.write(f"{kv}\t{window}\t{chunk}\t{known[key]}\n")
        return known.get(key)

    for kv in COARSE:
        for chunk in (1, 512):
            measured(kv, 0, chunk)
    text = TABLE_HEAD
    for kv in FORMATS:
        for window in run.options.windows:
            wanted, sigma, cells = reference_perplexity(kv, window, WINDOW), spread(kv), []
            for chunk in (1, 512):
                value = measured(kv, window, chunk)
                if value is None:
                    cells.append("not measured | ")
                    continue
                error = value / wanted - 1
                ok = abs(error) <= tolerance(kv, WINDOW, chunk)
                note = "" if abs(error) <= target(kv, chunk) else " (in spread)" if ok else " (off)"
                report.line(ok, f"{kv}: window {window}, chunk {chunk}: {100 * error:+.3f} %{note}")
                cells.append(f"{value:.4f} | {100 * error:+.3f} %{note}")
            cells.append(f"{100 * sigma:.2f} %" if sigma and kv not in ("f32", "f16") else "")
            text += f"| {kv} | {window} | {wanted:.4f} | " + " | ".join(cells) + " |\n"
    text += TABLE_FOOT.format(exact=100 * EXACT, decode=100 * DECODE, chunked=100 * CHUNKED_DEFAULT,
                              int2=100 * CHUNKED["kivi-int2"], deviations=DEVIATIONS, texts=TEXTS, text=TEXT,
                              disturbed=disturbed_rows(known), reference=disturbed_reference_rows(),
                              coarse=coarse_rows(known))
    if run.options.output:
        Path(run.options.output).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    commands = parser.add_subparsers(dest="command", required=True)
    numbers = lambda text: [int(number) for number in text.split(",")]
    for function in (greedy, logits, perplexity, starts, table):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("kvc_run", metavar="KVC-RUN")
        command.add_argument("model", metavar="MODEL.gguf")
        command.add_argument("--threads", type=int, default=0)
        if function in (greedy, logits, perplexity, starts):
            command.add_argument("--kv", default="int8,int4" if function is starts else "f16", help="perplexity, starts: comma-separated formats")
        if function is greedy:
            command.add_argument("--ends", type=numbers, default=[2], help="ids that end a text")
        if function is logits:
            command.add_argument("--sets", type=lambda text: text.split(","), default=["prose", "mixed", "long"])
        if function in (perplexity, table):
            command.add_argument("--windows", type=numbers, default=[0, 1, 2])
        if function is perplexity:
            command.add_argument("--chunk", type=int, default=512)
            command.add_argument("--length", type=int, default=WINDOW, help="tokens of a window that are run")
        if function is table:
            command.add_argument("--results", default="build/fidelity.tsv", help="measurements, kept between calls")
            command.add_argument("--known-only", action="store_true", help="measure nothing")
            command.add_argument("-o", "--output")
    options = parser.parse_args()
    report = Report()
    options.function(Runner(options), report)
    return 1 if report.failures else 0


sys.exit(main())

#!/usr/bin/env python3
# Measures decode and prefill of a model by kvc beside other engines; called by utils/bench --peers.
"""utils/bench --peers [--model MODEL.gguf] [--context N] [--tokens N] [--threads N] [--rounds N] [--kv FORMAT]

Both engines take the same ids as a prompt of --context tokens and then decode --tokens tokens one by one, in turns, --rounds
times. Printed: the median speed of each, and the median of the ratios of the rounds, which a busy machine disturbs least.
Exits with 1 where the ratio of decode lies below FLOOR. llama.cpp runs on the model as it is, with its defaults (f16 KV).

The first call builds llama-cpp-python from source into .venv-peers (utils/peers.txt), which takes some minutes.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import environments

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "build" / "bin" / "kvc-run"
FLOOR = 0.5
# Only the library, for this machine, by the compiler that kvc is built with.
BUILD = {"CC": "clang-22", "CXX": "clang++-22",
         "CMAKE_ARGS": "-DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF"}


def install():
    """The Python of the environment of utils/peers.txt."""
    return environments.install("peers", ROOT / "utils" / "peers.txt", ["--no-binary", "llama-cpp-python"],
                                {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()), **os.environ, **BUILD},
                                "building llama-cpp-python; this takes some minutes")


def llama_worker(model, threads, context, tokens):
    """Runs in .venv-peers: for each line of ids on stdin one line of speeds."""
    import ctypes

    import llama_cpp
    llm = llama_cpp.Llama(model, n_ctx=context + tokens, n_batch=context, n_ubatch=context, n_threads=threads,
                          n_threads_batch=threads, verbose=False)

    def decode(ids):
        array = (llama_cpp.llama_token * len(ids))(*ids)
        start = time.perf_counter()
        status = llama_cpp.llama_decode(llm.ctx, llama_cpp.llama_batch_get_one(array, len(ids)))
        logits = llama_cpp.llama_get_logits_ith(llm.ctx, -1)  # waits for the result
        seconds = time.perf_counter() - start
        if status:
            raise SystemExit(f"error: llama_decode failed with status {status}")
        count = llm.n_vocab()
        row = memoryview(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * count)).contents).cast("B").cast("f")
        return seconds, max(range(count), key=row.__getitem__)

    for line in sys.stdin:
        ids = json.loads(line)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llm.ctx), True)
        prefill, token = decode(ids)
        steps = []
        for _ in range(tokens - 1):
            seconds, token = decode([token])
            steps.append(seconds)
        print(json.dumps({"prefill": len(ids) / prefill, "decode": len(steps) / sum(steps)}), flush=True)


class Llama:
    name = "llama.cpp"

    def __init__(self, options):
        arguments = [options.model, options.threads, options.context, options.tokens]
        self.process = subprocess.Popen([install(), __file__, "--worker", *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, ids):
        self.process.stdin.write(json.dumps(ids) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"error: llama.cpp ended with status {self.process.wait()}")
        return json.loads(line)


class Kvc:
    name = "kvc"

    def __init__(self, options):
        self.options = options

    def measure(self, ids):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(ids, file)
            file.flush()
            line = [str(RUN), "generate", self.options.model, "--ids", file.name, "--max-tokens", self.options.tokens,
                    "--kv", self.options.kv, "--threads", self.options.threads, "--json"]
            done = subprocess.run(list(map(str, line)), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"error: kvc-run failed: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        return {"prefill": result["prefill_tok_s"], "decode": result["decode_tok_s"]}


def main():
    parser = argparse.ArgumentParser(prog="utils/bench --peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kv", default="f16", help="of kvc; llama.cpp has f16")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write((ROOT / "docs" / "rationale" / "tile.md").read_text())
        text.flush()
        tokenized = subprocess.run([str(RUN), "tokenize", options.model, "--text-file", text.name, "--json"], check=True,
                                   capture_output=True, text=True)
    ids = json.loads(tokenized.stdout)["ids"][:options.context]
    engines = [Kvc(options), Llama(options)]
    for engine in engines:
        engine.measure(ids)  # compiles, maps the model
    rounds = []
    for number in range(options.rounds):
        order = engines if number % 2 == 0 else engines[::-1]
        rounds.append({engine.name: engine.measure(ids) for engine in order})
    median = lambda values: statistics.median(list(values))
    print(f"{Path(options.model).stem}, {options.threads} threads, {len(ids)} tokens of context, medians of {len(rounds)}")
    print(f"{'':10}{'kvc':>14}{'llama.cpp':>14}{'ratio':>10}")
    for phase in ("prefill", "decode"):
        speeds = [median(r[name][phase] for r in rounds) for name in ("kvc", "llama.cpp")]
        ratio = median(r["kvc"][phase] / r["llama.cpp"][phase] for r in rounds)
        print(f"{phase:10}{speeds[0]:8.1f} tok/s{speeds[1]:8.1f} tok/s{ratio:10.2f}")
    print(f"floor of the ratio of decode: {FLOOR}")
    return 0 if ratio >= FLOOR else 1


if sys.argv[1:2] == ["--worker"]:
    llama_worker(sys.argv[2], *map(int, sys.argv[3:]))
else:
    sys.exit(main())

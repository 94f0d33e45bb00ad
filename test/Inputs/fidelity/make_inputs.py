# Takes the small part of the fidelity anchors that the integration tests need.
"""usage: make_inputs.py ANCHORS    (writes beside itself)

ANCHORS is the folder that README.md describes: greedy continuations, logits, windows and perplexities of
SmolLM2-135M-Instruct (Q4_1), made by transformers and llama.cpp.
"""
import json
import sys
from pathlib import Path

import numpy as np

anchors, here = Path(sys.argv[1]), Path(__file__).resolve().parent


def write(name, rows):
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    (here / name).write_text("[\n" + lines + "\n]\n")


greedy = json.loads((anchors / "smollm2-greedy.json").read_text())["rows"]
write("greedy-smollm2.json", [{"name": row["name"], "prompt_ids": row["prompt_ids"], "ids": row["f32"]["ids"],
                               "near_ties": row["f32"]["near_ties"]} for row in greedy])

sets = [json.loads((anchors / "logits" / f"smollm2-{name}.json").read_text()) for name in ("prose", "mixed", "long")]
write("logits-smollm2.json", [{"name": one["set"], "ids": one["ids"], "positions": one["positions"],
                               "top64_ids": one["engines"]["hf"]["top64_ids"],
                               "top64_logits": one["engines"]["hf"]["top64_logits"]} for one in sets])

np.save(here / "windows-smollm2.npy", np.load(anchors / "windows-smollm2.npy")[:3])
np.save(here / "nll-smollm2.npy", np.stack([np.load(anchors / f"nll-smollm2-{i}.npy") for i in range(3)]))

# The names of the command line, without the row of another group size.
names = {"int8-token g32": "int8", "int4-token g32": "int4", "kivi-int4 g32 r128": "kivi-int4",
         "kivi-int2 g32 r128": "kivi-int2"}
rows = [line.split("\t") for line in (anchors / "kv-quant-perplexity.tsv").read_text().splitlines()[1:]]
table = [(names[name], window, value) for name, window, value in rows if name in names]
(here / "perplexity-smollm2.tsv").write_text("".join("\t".join(row) + "\n" for row in [("kv", "window", "perplexity"), *table]))

# Runs every case of a table of strings and ids through kvc-run tokenize, both ways.
"""usage: tokenizer.py KVC-RUN MODEL.gguf TABLE.json"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    kvc_run, model, table = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        text, ids = Path(folder) / "text", Path(folder) / "ids.json"

        def tokenize(*arguments):
            return subprocess.run([kvc_run, "tokenize", model, *arguments], capture_output=True, check=True).stdout

        cases = json.loads(Path(table).read_text())
        for case in cases:
            string = bytes.fromhex(case["utf8_hex"])
            text.write_bytes(string)
            results = {
                "ids": json.loads(tokenize("--text-file", str(text), "--json"))["ids"] == case["ids"],
                "ids of special tokens":
                    json.loads(tokenize("--text-file", str(text), "--special", "--json"))["ids"] == case["ids_special"],
            }
            ids.write_text(json.dumps(case["ids"]))
            # Some bytes have no token: their text does not come back.
            results["text"] = (tokenize("--ids", str(ids)) == string) == case["roundtrip"]
            wrong = [name for name, equal in results.items() if not equal]
            failures += bool(wrong)
            print(f"{case['name']}: " + (", ".join(wrong) + " not as expected" if wrong else "ok"))
    print(f"{len(cases) - failures} of {len(cases)} cases as expected")
    return 1 if failures or not cases else 0


sys.exit(main())

# kvc.Model: a language model answers; the example of the README runs from the installed package.
import os
import re
import subprocess
from pathlib import Path

import pytest

import kvc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(model_path):
    return kvc.Model.from_gguf(model_path, kv="kivi-int4")


def test_generate(model):
    answer = model.generate("The capital of France is", 8)
    assert "Paris" in answer.text and str(answer) == answer.text
    assert len(answer.ids) <= 8 and answer.prompt_ids == model.encode("The capital of France is")
    facts = model.facts
    assert 0 < answer.kv_bytes_per_token and 4 < answer.kv_effective_bits < 40
    again = model.generate(answer.prompt_ids, 3)
    assert again.ids == answer.ids[:3]
    assert model.generate(answer.prompt_ids, 0).ids == []
    chat = model.generate("Say hello.", 4, chat=True, temperature=0.7, seed=1)
    assert chat.ids == model.generate("Say hello.", 4, chat=True, temperature=0.7, seed=1).ids
    assert facts["layers"] == 30 and facts["vocabulary"] == 49152


def test_refusals(model, model_path, tmp_path):
    with pytest.raises(ValueError, match="expects a prompt of at least one token"):
        model.generate([], 1)
    with pytest.raises(kvc.Error, match="expects token ids of 0 to 49151"):
        model.generate([49152], 1)
    with pytest.raises(ValueError, match="expects max_tokens"):
        model.generate("a", -1)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    for path in (bad, tmp_path / "none.gguf"):
        with pytest.raises(kvc.Error, match=path.name):
            kvc.Model.from_gguf(path)
    with pytest.raises(kvc.Error, match="expects f32, f16, bf16, int8"):
        kvc.Model.from_gguf(model_path, kv="f15")


def test_method(model_path):
    with pytest.raises(kvc.Error, match="nosuch"):
        kvc.Model.from_gguf(model_path, method="nosuch")
    model = kvc.Model.from_gguf(model_path, method="streamingllm", method_args={"sinks": 4, "recent": 28})
    assert len(model.generate("Once upon a time", 4).ids) == 4


def test_readme_example(installed_python, model_path):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        done = subprocess.run([installed_python, "-c", block.replace("MODEL.gguf", str(model_path))], cwd="/",
                              capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()

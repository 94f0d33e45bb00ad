# Language models from GGUF files.
import dataclasses
import os
import time
import warnings

import numpy as np

from . import _check, _kvc


@dataclasses.dataclass(frozen=True)
class Generation:
    """What a model made of a prompt; `str()` is the text. kv_bytes_per_token and kv_effective_bits are those of the whole
    cache at the end."""

    prompt_ids: list
    ids: list
    text: str
    prefill_tok_s: float
    decode_tok_s: float
    kv_bytes_per_token: float
    kv_effective_bits: float

    def __str__(self):
        return self.text


class Model:
    """A language model whose attention runs through the kvcache dialect."""

    def __init__(self, model):
        self._model = model

    @classmethod
    def from_gguf(cls, path, kv="", page=0, method="dense", method_args=None, threads=0):
        """Imports and compiles a model. kv: a storage format, kivi- before one of integers, or K=FORMAT,V=FORMAT
        (empty: what the method needs, else f16); page: slots of a page (0: 16, and 32 for kivi-*); method: a KV method's
        name or file, method_args: values of its parameters; threads: 0 = one per CPU."""
        arguments = [f"{name}={value}" for name, value in (method_args or {}).items()]
        return cls(_kvc.LanguageModel(os.fspath(path), kv, page, method, arguments, threads))

    @property
    def facts(self):
        """Layers, heads, dimensions, vocabulary and context of the model."""
        return self._model.facts

    def encode(self, text, chat=False):
        """Token ids of a text; with chat, of the text as a user's turn in the model's chat template."""
        return self._model.encode(text, chat)

    def decode(self, ids):
        """The text of token ids. A character that is not complete becomes U+FFFD."""
        return self._model.decode(list(ids)).decode(errors="replace")

    def generate(self, prompt, max_tokens, chat=False, temperature=0.0, seed=0):
        """Continues a prompt (text, or token ids) by at most max_tokens tokens; greedy unless a temperature is given. It
        stops, with a warning, where the model's context is full."""
        model = self._model
        prompt_ids = model.encode(prompt, chat) if isinstance(prompt, str) else [int(i) for i in prompt]
        if not prompt_ids:
            raise ValueError("expects a prompt of at least one token, but got an empty one")
        max_tokens = _check.integer(max_tokens, "max_tokens", 0)
        temperature = _check.number(temperature, "temperature", 0)
        context = model.facts["context"]
        if len(prompt_ids) > context:
            raise ValueError(f"expects a prompt of at most the {context} tokens of the model's context, but got "
                             f"{len(prompt_ids)}")
        random = np.random.default_rng(seed)
        session = _kvc.Session(model, 1, min(len(prompt_ids) + max(max_tokens, 1), context))
        sequence = session.create()
        ids, step, seconds = [], prompt_ids, []
        while True:
            start = time.perf_counter()
            logits = session.step([(sequence, step)])[0]
            seconds.append(time.perf_counter() - start)
            if max_tokens > 0:
                ids.append(_sample(logits, temperature, random))
            if len(ids) == max_tokens or model.is_end(ids[-1]):
                break
            if len(prompt_ids) + len(ids) >= context:
                warnings.warn(f"stopped at the {context} tokens of the model's context")
                break
            step = ids[-1:]
        statistics = session.statistics()
        # The last token was never appended.
        tokens = len(prompt_ids) + max(len(ids) - 1, 0)
        return Generation(
            prompt_ids=prompt_ids, ids=ids, text=self.decode(ids),
            prefill_tok_s=len(prompt_ids) / seconds[0],
            decode_tok_s=(len(seconds) - 1) / sum(seconds[1:]) if len(seconds) > 1 else 0.0,
            kv_bytes_per_token=statistics["bytes_used"] / tokens,
            kv_effective_bits=model.effective_bits(statistics["bytes_used"], tokens * model.facts["layers"]),
        )


def _sample(logits, temperature, random):
    if temperature == 0:
        return int(np.argmax(logits))
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    sums = np.cumsum(weights)
    return int(min(np.searchsorted(sums, random.random() * sums[-1], side="right"), len(sums) - 1))

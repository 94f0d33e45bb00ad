# SmolLM2 in NumPy with a quantised KV cache: how far two correct engines may be apart.
"""usage: make_draws.py MODEL.gguf prefix [LENGTH=512] | starts | draws OUT.tsv FORMAT:WINDOW:DRAW ...
(needs the PyPI package gguf; reads and writes beside itself)

starts writes starts-smollm2.npz: for each format that quantises at once the perplexities of texts of 3 tokens, the parts of
the first 1536 tokens of window 0: so short that most of them hold no code that flips.
prefix writes prefix-smollm2.npz: for each KIVI format the negative log likelihood of targets 1 .. LENGTH - 1 of window 0.
draws appends lines (format, window, draw, perplexity) of whole windows to OUT.tsv. Draw 0 is the model; draw n multiplies
every element of the embedded tokens by 1 + 1e-7 e, with e from a normal distribution: an error as that of one f32
operation. A code flips where a value lies at a boundary; whatever follows sees a key or a value that is off by a step.

All of it is float32. The query at position i sees what a decode step sees: slots below sealed(i) quantised, the others
exact.
    int8 to int2: K and V in groups of 32 channels of a token; sealed(i) = i + 1
    kivi-int4 to -int2: K in groups of 32 tokens of a channel, V in groups of 32 channels of a token;
    sealed(i) = 32 floor(max(i + 1 - 128, 0) / 32)
    zero = f16(min), scale = f16((max - min) / (2^bits - 1)), code = round half to even((x - zero) / scale), clamped.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

HERE = Path(__file__).resolve().parent
GROUP, RESIDUAL, WINDOW, ERROR = 32, 128, 2048, 1e-7
# name: (bits of a code, axis of K's groups: 1 = tokens, 2 = channels)
FORMATS = {"f32": None, "int8": (8, 2), "int4": (4, 2), "kivi-int4": (4, 1), "kivi-int2": (2, 1),
           "kivi-int3": (3, 1), "int3": (3, 2), "int2": (2, 2)}
PREFIXES = ("f32", "kivi-int4", "kivi-int2")
STARTS, TEXTS, TEXT = ("f32", "int8", "int4"), 512, 3


def quantise(x, bits, axis):
    """The values that codes in groups of GROUP along `axis` stand for; a rest shorter than a group stays as it is."""
    x = np.moveaxis(x, axis, -1)
    count = x.shape[-1] // GROUP * GROUP
    groups = x[..., :count].reshape(*x.shape[:-1], -1, GROUP)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    limit = np.float32(2**bits - 1)
    scale = np.maximum(((high - low) / limit).astype(np.float16).astype(np.float32), np.float32(1e-8))
    zero = low.astype(np.float16).astype(np.float32)
    codes = np.clip(np.round((groups - zero) / scale), 0, limit)
    result = x.copy()
    result[..., :count] = (codes * scale + zero).reshape(*x.shape[:-1], count)
    return np.moveaxis(result, -1, axis)


def norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(epsilon)) * weight


def rotate(x, base, positions):
    """Adjacent pairs (2i, 2i + 1) of a head by position * base^(-2i / d), stored in the model's own order (i, i + d / 2),
    which says what a group of channels is; x: heads, tokens, d."""
    d = x.shape[2]
    angle = positions[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.concatenate([even * cos - odd * sin, even * sin + odd * cos], -1)


def attention(q, k, v, storage, visible):
    """q: query heads, tokens, d; k and v: KV heads, tokens, d."""
    tokens = np.arange(q.shape[1])
    stored = None
    if storage:
        bits, axis = storage
        kq, vq = quantise(k, bits, axis), quantise(v, bits, 2)
        if axis == 2:
            k, v = kq, vq
        else:
            stored = tokens[None, :] < (np.maximum(tokens + 1 - RESIDUAL, 0) // GROUP * GROUP)[:, None]
    out = np.empty_like(q)
    for head in range(len(q)):
        of = head * len(k) // len(q)
        scores = q[head] @ k[of].T
        if stored is not None:
            scores = np.where(stored, q[head] @ kq[of].T, scores)
        scores = np.where(visible, scores / np.float32(np.sqrt(q.shape[2])), np.float32(-np.inf))
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out[head] = p @ v[of] if stored is None else (p * stored) @ vq[of] + (p * ~stored) @ v[of]
    return out


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = lambda name: reader.fields["llama." + name].contents()
        self.weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        self.heads, self.kv_heads = field("attention.head_count"), field("attention.head_count_kv")
        self.epsilon, self.base = field("attention.layer_norm_rms_epsilon"), field("rope.freq_base")
        self.layers = field("block_count")

    def nll(self, ids, storage, draw=0, text=None):
        """Negative log likelihoods of ids[1:]; of texts of `text` tokens that do not see each other."""
        length = len(ids)
        tokens, text = np.arange(length), text or length
        visible = (tokens[None, :] <= tokens[:, None]) & (tokens[None, :] // text == tokens[:, None] // text)
        split = lambda x, n: x.reshape(length, n, -1).transpose(1, 0, 2)
        x = self.weights["token_embd.weight"][ids]
        if draw:
            noise = np.random.default_rng(draw).standard_normal(x.shape)
            x = (x * (1 + ERROR * noise)).astype(np.float32)
        for layer in range(self.layers):
            w = lambda what: self.weights[f"blk.{layer}.{what}.weight"]
            h = norm(x, w("attn_norm"), self.epsilon)
            q, k = (rotate(split(h @ w(f"attn_{name}").T, heads), self.base, tokens % text)
                    for name, heads in (("q", self.heads), ("k", self.kv_heads)))
            a = attention(q, k, split(h @ w("attn_v").T, self.kv_heads), storage, visible)
            x = x + a.transpose(1, 0, 2).reshape(length, -1) @ w("attn_output").T
            h = norm(x, w("ffn_norm"), self.epsilon)
            gate = h @ w("ffn_gate").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        output = self.weights.get("output.weight", self.weights["token_embd.weight"])
        logits = (norm(x, self.weights["output_norm.weight"], self.epsilon) @ output.T)[:-1]
        largest = logits.max(-1)
        sums = np.exp(logits - largest[:, None]).sum(-1, dtype=np.float64)
        return largest + np.log(sums) - logits[np.arange(length - 1), ids[1:]]


def main():
    model, command = Model(sys.argv[1]), sys.argv[2]
    windows = np.load(HERE / "windows-smollm2.npy").astype(np.int64)
    if command == "prefix":
        length = int(sys.argv[3]) if len(sys.argv) > 3 else 512
        nlls = {name: model.nll(windows[0, :length], FORMATS[name]) for name in PREFIXES}
        np.savez(HERE / "prefix-smollm2.npz", **{name: nll.astype(np.float32) for name, nll in nlls.items()})
        return
    if command == "starts":
        results = {}
        for name in STARTS:
            nll = model.nll(windows[0, :TEXTS * TEXT], FORMATS[name], text=TEXT)
            nll = np.append(nll, 0).reshape(TEXTS, TEXT)[:, :-1]  # the last target of a text is the next one's first token
            results[name] = np.exp(nll.mean(1)).astype(np.float32)
        np.savez(HERE / "starts-smollm2.npz", **results)
        return
    for what in sys.argv[4:]:
        name, window, draw = what.split(":")
        value = np.exp(model.nll(windows[int(window)], FORMATS[name], int(draw)).mean())
        with open(sys.argv[3], "a") as file:
            file.write(f"{name}\t{window}\t{draw}\t{value:.4f}\n")


main()

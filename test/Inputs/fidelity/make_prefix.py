# SmolLM2 in NumPy with a quantised KV cache: negative log likelihoods of the first tokens of a window.
"""usage: make_prefix.py MODEL.gguf [LENGTH=512]    (needs the PyPI package gguf; reads and writes beside itself)

Writes prefix-smollm2.npz: for each KV format the negative log likelihood of targets 1 .. LENGTH - 1 of window 0. All of
it is float32. The query at position i sees what a decode step sees: slots below sealed(i) quantised, the others exact.
    kivi-int4, -int2: K in groups of 32 tokens of a channel, V in groups of 32 channels of a token;
    sealed(i) = 32 floor(max(i + 1 - 128, 0) / 32)
    zero = f16(min), scale = f16((max - min) / (2^bits - 1)), code = round half to even((x - zero) / scale), clamped.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

HERE = Path(__file__).resolve().parent
GROUP, RESIDUAL = 32, 128
# name: bits of a code
FORMATS = {"f32": None, "kivi-int4": 4, "kivi-int2": 2}


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


def rotate(x, base):
    """Adjacent pairs (2i, 2i + 1) of a head by position * base^(-2i / d); x: heads, tokens, d."""
    tokens, d = x.shape[1:]
    angle = np.arange(tokens)[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def attention(q, k, v, bits):
    """q: query heads, tokens, d; k and v: KV heads, tokens, d."""
    tokens = np.arange(q.shape[1])
    kq, vq, sealed = k, v, np.zeros_like(tokens)
    if bits:
        kq, vq = quantise(k, bits, 1), quantise(v, bits, 2)
        sealed = np.maximum(tokens + 1 - RESIDUAL, 0) // GROUP * GROUP
    stored = tokens[None, :] < sealed[:, None]
    out = np.empty_like(q)
    for head in range(len(q)):
        of = head * len(k) // len(q)
        scores = np.where(stored, q[head] @ kq[of].T, q[head] @ k[of].T) / np.float32(np.sqrt(q.shape[2]))
        scores[tokens[None, :] > tokens[:, None]] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out[head] = (p * stored) @ vq[of] + (p * ~stored) @ v[of]
    return out


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    field = lambda name: reader.fields["llama." + name].contents()
    weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")
    epsilon, base = field("attention.layer_norm_rms_epsilon"), field("rope.freq_base")
    ids = np.load(HERE / "windows-smollm2.npy")[0, :length].astype(np.int64)
    split = lambda x, n: x.reshape(length, n, -1).transpose(1, 0, 2)
    results = {}
    for name, bits in FORMATS.items():
        x = weights["token_embd.weight"][ids]
        for layer in range(field("block_count")):
            w = lambda what: weights[f"blk.{layer}.{what}.weight"]
            h = norm(x, w("attn_norm"), epsilon)
            q, k = rotate(split(h @ w("attn_q").T, heads), base), rotate(split(h @ w("attn_k").T, kv_heads), base)
            a = attention(q, k, split(h @ w("attn_v").T, kv_heads), bits)
            x = x + a.transpose(1, 0, 2).reshape(length, -1) @ w("attn_output").T
            h = norm(x, w("ffn_norm"), epsilon)
            gate = h @ w("ffn_gate").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        logits = (norm(x, weights["output_norm.weight"], epsilon) @ weights["token_embd.weight"].T)[:-1].astype(np.float64)
        largest = logits.max(-1)
        nll = largest + np.log(np.exp(logits - largest[:, None]).sum(-1)) - logits[np.arange(length - 1), ids[1:]]
        results[name] = nll.astype(np.float32)
        print(f"{name}\t{length} tokens\tperplexity {np.exp(nll.mean()):.4f}", flush=True)
    np.savez(HERE / "prefix-smollm2.npz", **results)


main()

# kvc.attention: arguments and traced score functions against NumPy.
import math

import numpy as np
import pytest
import reference

import kvc

HEADS, KV_HEADS, DIM = 4, 2, 32
SPEC = kvc.CacheSpec(KV_HEADS, DIM, k="f32", v="f32")

SCORES = {
    "soft_cap": lambda s, b, h, q, k: kvc.soft_cap(s, 3.0),
    "alibi": lambda s, b, h, q, k: kvc.alibi(s, h, q, k, HEADS),
    "distance": lambda s, b, h, q, k: s - 0.125 * (h + 1) * abs(q - k),
    "where": lambda s, b, h, q, k: kvc.where((q - k < 5) | (k == 0), s, -math.inf),
    "not": lambda s, b, h, q, k: kvc.where(~((q - k > 3) & (k != 1)), s, s - 2),
    "functions": lambda s, b, h, q, k: kvc.tanh(s) + kvc.exp(-abs(s)) * 2 - kvc.sqrt(k + 1) / (1 + kvc.log(q + 1.0)),
    "extremes": lambda s, b, h, q, k: kvc.maximum(kvc.minimum(s, 0.5), -0.5) + kvc.minimum(k, 7) * 0.25,
    "negation": lambda s, b, h, q, k: -s / 2 + (-k) * np.float32(0.5) + b,
    "number": lambda s, b, h, q, k: 1.5,
    "whole": lambda s, b, h, q, k: k - q,
}


@pytest.fixture(scope="module")
def filled():
    """A cache with one sequence of 40 slots, of which the last 9 rows attend."""
    rng = np.random.default_rng(7)
    cache = kvc.Cache(SPEC, sequences=1, capacity=64)
    k, v = (rng.standard_normal((40, KV_HEADS, DIM)).astype(np.float32) for _ in range(2))
    cache.append(k[:31], v[:31])
    batch = cache.append(k[31:], v[31:])
    return cache, batch, rng.standard_normal((9, HEADS, DIM)).astype(np.float32), k, v


@pytest.mark.parametrize("name", SCORES)
def test_score_functions(filled, name):
    cache, batch, q, k, v = filled
    out, lse = kvc.attention(q, cache, score=SCORES[name], returns=("out", "lse"))
    want, want_lse, _ = reference.attention(q, k, v, batch.positions, 1 / math.sqrt(DIM), score=SCORES[name])
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(lse, want_lse, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("arguments", [
    {"causal": False}, {"window": 6}, {"scale": 0.5}, {"sink_logits": np.array([0.5, -1, 2, 0], np.float32)},
    {"causal": True, "window": 3, "scale": 2.0, "score": SCORES["soft_cap"]},
], ids=str)
def test_arguments(filled, arguments):
    cache, batch, q, k, v = filled
    lse, out = kvc.attention(q, cache, batch=batch, returns=("lse", "out"), **arguments)
    want, want_lse, _ = reference.attention(q, k, v, batch.positions, **{"scale": 1 / math.sqrt(DIM), **arguments})
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(lse, want_lse, rtol=2e-5, atol=2e-5)


def test_statistics(filled):
    cache, batch, q, k, v = filled
    out, scores = kvc.attention(q, cache, returns=("out", "scores"), stat_rows=4)
    _, _, weights = reference.attention(q, k, v, batch.positions, 1 / math.sqrt(DIM))
    want = weights[-4:].sum(0).reshape(KV_HEADS, HEADS // KV_HEADS, -1).sum(1)
    np.testing.assert_allclose(scores[0, :, :40], want, rtol=2e-5, atol=2e-5)
    assert kvc.attention(q, cache, returns="lse").shape == (9, HEADS)


def test_several_sequences():
    rng = np.random.default_rng(3)
    cache = kvc.Cache(SPEC, sequences=2, capacity=32)
    q, k, v = (rng.standard_normal((12, h, DIM)).astype(np.float32) for h in (HEADS, KV_HEADS, KV_HEADS))
    cache.append(k, v, sequences=[1, 0], rows=[9, 3])
    out = kvc.attention(q, cache)
    for part in (slice(0, 9), slice(9, 12)):
        want, _, _ = reference.attention(q[part], k[part], v[part], np.arange(12), 1 / math.sqrt(DIM))
        np.testing.assert_allclose(out[part], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("score, message", [
    (lambda s, b, h, q, k: s if q > k else -s, "kvc.where"),
    (lambda s, b, h, q, k: math.exp(s), "kvc.exp"),
    (lambda s, b, h, q, k: q > k, "expects a number, but got a condition"),
    (lambda s, b, h, q, k: kvc.where(s, 1.0, 2.0), "expects a condition"),
    (lambda s, b, h, q, k: s + 1e300, "fit f32"),
])
def test_score_functions_that_cannot_be_traced(filled, score, message):
    cache, _, q, _, _ = filled
    with pytest.raises(kvc.Error, match=message):
        kvc.attention(q, cache, score=score)


def test_bad_arguments(filled):
    cache, batch, q, k, v = filled
    with pytest.raises(ValueError, match="expects returns of out, lse, scores"):
        kvc.attention(q, cache, returns=("out", "max"))
    with pytest.raises(ValueError, match="expects q of three axes"):
        kvc.attention(q[0], cache)
    with pytest.raises(ValueError, match="expects a batch for 4 rows"):
        kvc.attention(q[:4], cache)
    with pytest.raises(TypeError, match="expects numbers in a score function, but got str"):
        kvc.attention(q, cache, score=lambda s, b, h, q, k: s + "1")
    with pytest.raises(kvc.Error, match="expects"):
        kvc.attention(q[:, :3], cache)


@pytest.mark.parametrize("name, value, error", [("window", 1.5, TypeError), ("window", 0, ValueError),
                                                ("sinks", -1, ValueError), ("scale", float("nan"), ValueError),
                                                ("scale", "1", TypeError), ("window", True, TypeError)])
def test_numbers_that_mean_nothing(name, value, error):
    cache = kvc.Cache(kvc.CacheSpec(1, 32), sequences=1, capacity=8)
    cache.append(*np.zeros((2, 4, 1, 32), np.float32))
    with pytest.raises(error, match=f"expects .*{name}.*but got"):
        kvc.attention(np.zeros((4, 1, 32), np.float32), cache, **{name: value})

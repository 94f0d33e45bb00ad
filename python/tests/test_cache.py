# kvc.Cache: append, export, fork, truncate, clear, and what is refused.
import numpy as np
import pytest

import kvc

SPECS = {
    "f32": (kvc.CacheSpec(2, 32, k="f32", v="f32", page=8), 0),
    "f16": (kvc.CacheSpec(2, 32, v_dim=16), 2e-3),
    "int8": (kvc.CacheSpec(1, 64, k="int8", v="int8"), 0.03),
    "kivi": (kvc.CacheSpec(2, 32, k="int4<axis = channel>", v="int4", page=32, residual=32), 0.4),
}


def rows(rng, spec, n):
    shapes = (spec.heads, spec.key_dim), (spec.heads, spec.value_dim)
    return (rng.standard_normal((n, *shape)).astype(np.float32) for shape in shapes)


@pytest.fixture(params=SPECS)
def case(request):
    spec, tolerance = SPECS[request.param]
    rng = np.random.default_rng(11)
    cache = kvc.Cache(spec, sequences=3, capacity=128)
    k, v = rows(rng, spec, 100)
    cache.append(k[:70], v[:70], sequences=[1])
    cache.append(k[70:], v[70:], sequences=[1])
    return cache, k, v, tolerance, rng


def check(cache, sequence, k, v, tolerance):
    assert cache.length(sequence) == len(k)
    keys, values = cache.export([sequence])
    assert keys.shape[1] == len(k)
    np.testing.assert_allclose(keys[0], k, atol=tolerance, rtol=0)
    np.testing.assert_allclose(values[0], v, atol=tolerance, rtol=0)


def test_append_and_export(case):
    cache, k, v, tolerance, _ = case
    check(cache, 1, k, v, tolerance)
    assert [cache.length(s) for s in range(3)] == [0, 100, 0] and cache.position(1) == 100
    keys, _ = cache.export()
    assert keys.shape[0] == 3 and not keys[0].any() and not keys[2].any()
    assert cache.statistics()["slots_used"] == 100


def test_fork_copies_on_write(case):
    cache, k, v, tolerance, rng = case
    used = cache.statistics()["pages_used"]
    cache.fork(1, 2)
    assert cache.statistics()["pages_used"] == used
    more_k, more_v = rows(rng, cache.spec, 5)
    cache.append(more_k, more_v, sequences=[2])
    check(cache, 1, k, v, tolerance)
    check(cache, 2, np.concatenate([k, more_k]), np.concatenate([v, more_v]), tolerance)
    clone = cache.clone()
    cache.clear(2)
    assert cache.length(2) == 0 and clone.length(2) == 105


def test_truncate(case):
    cache, k, v, tolerance, rng = case
    for length in (90, 41, 0):
        # Where 41 cuts a sealed group its slots go back to the tail (f16), as the values that they decoded to.
        before = cache.export([1])
        cache.truncate(1, length)
        for old, new in zip(before, cache.export([1])):
            np.testing.assert_allclose(new[0], old[0, :length], rtol=2.0**-11)
        check(cache, 1, k[:length], v[:length], tolerance)
    more_k, more_v = rows(rng, cache.spec, 3)
    batch = cache.append(more_k, more_v, sequences=[1])
    assert batch.positions.tolist() == [0, 1, 2]
    check(cache, 1, more_k, more_v, tolerance)


def test_spec_prints_the_type():
    assert str(kvc.CacheSpec(8, 128)) == "!kvcache.cache<heads = 8, dim = 128, page = 16, k = f16, v = f16>"
    spec = kvc.CacheSpec(2, 32, k="int4<axis = channel>", v="int4", page=32, residual=64, tail="f32", positions="stored",
                         tables="per_head", planes=("minmax", "score"))
    assert "residual = 64, tail = f32, positions = stored, tables = per_head, planes = [minmax, score]" in str(spec)
    assert kvc.Cache(spec, 1, 32).length(0, head=1) == 0


def test_refusals_leave_the_cache_as_it_was():
    spec = kvc.CacheSpec(1, 16, k="f32", v="f32", page=4)
    rng = np.random.default_rng(5)
    cache = kvc.Cache(spec, sequences=2, capacity=8, pages=3)
    k, v = rows(rng, spec, 8)
    cache.append(k, v, sequences=[0])
    for arguments, message in (
            ((k[:1], v[:1]), "expects"),                                     # beyond the capacity
            ((k, v, ([0, 8], [1], range(8))), "page"),                       # the pool is exhausted
            ((k[:1], v[:1], ([0, 1], [2], [0])), "expects"),                 # no such sequence
            ((k[:1, :, :4], v[:1]), "expects"),                              # another shape
    ):
        with pytest.raises(kvc.Error, match=message):
            cache.append(*arguments)
    check(cache, 0, k, v, 0)
    cache.clear(0)
    cache.append(k, v, sequences=[1])
    check(cache, 1, k, v, 0)
    for call in (lambda: cache.fork(0, 5), lambda: cache.truncate(1, -1), lambda: cache.length(9),
                 lambda: kvc.Cache(spec, -1, 8)):
        with pytest.raises(kvc.Error, match="expects"):
            call()
    with pytest.raises(ValueError, match="expects rows for 2 sequences, but got 3"):
        cache.append(k[:3], v[:3], sequences=[0, 1])


def test_rows_that_are_not_those_of_the_batch():
    cache = kvc.Cache(kvc.CacheSpec(2, 64), sequences=1, capacity=64)
    with pytest.raises(kvc.Error, match=r"expects size 60 in dimension 0, but got shape \[1, 2, 64\]"):
        cache.append(np.zeros((60, 2, 64), np.float32), np.zeros((1, 2, 64), np.float32))
    assert cache.length() == 0
    cache.append(np.zeros((4, 2, 64), np.float32), np.zeros((4, 2, 64), np.float32))
    assert cache.length() == 4


@pytest.mark.parametrize("value", ["text", None, [1.0], np.zeros((2, 2, 64), complex)])
def test_rows_that_are_no_rows(value):
    cache = kvc.Cache(kvc.CacheSpec(2, 64), sequences=1, capacity=64)
    with pytest.raises(TypeError, match=r"expects k of numbers in three axes \(rows, heads, channels\), but got"):
        cache.append(value, value)


@pytest.mark.parametrize("fields, error, message", [
    ({"heads": 0}, ValueError, "expects heads of at least 1, but got 0"),
    ({"dim": -1}, ValueError, "expects dim of at least 1, but got -1"),
    ({"page": 1.5}, TypeError, "expects an integer as page, but got 1.5"),
    ({"k": 4}, TypeError, "expects a string as k, but got 4"),
    ({"planes": "norm"}, TypeError, "expects a tuple of names as planes"),
    ({"k": "f17"}, kvc.Error, "expects a storage format"),
    ({"k": "int4<axis = channel>"}, kvc.Error, "expects a page"),
    ({"k": "int4>, v=<"}, kvc.Error, "cache"),
    ({"page": 1000}, kvc.Error, "expects"),
])
def test_specs_that_are_none(fields, error, message):
    with pytest.raises(error, match=message):
        kvc.CacheSpec(**{"heads": 2, "dim": 64, **fields})

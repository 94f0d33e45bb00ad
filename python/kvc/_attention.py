# Attention over a cache: the arguments become a module, which is compiled once.
import functools
import math

import numpy as np

from . import _check, _jit, _score
from ._cache import Batch, Cache

_RESULTS = ("out", "lse", "scores")
_MODULE = """\
// Attention over one cache.
!kv = {cache}
func.func @attention({arguments}) -> ({types}) {{
  %r:{count} = kvcache.attention %q over %c at %b {sinks}returns({returns})
      {{{attributes}}} {score} : ({operands}) -> ({types})
  return {names} : {types}
}}
"""


def text(spec, heads, *, causal, window, sinks, scale, score, returns, stat, stat_rows, sink_logits):
    """The module of `attention` for `heads` query heads; `score` is the text of a region, or empty."""
    query = f"tensor<?x{heads}x{spec.key_dim}xf32>"
    results = {"out": f"tensor<?x{heads}x{spec.value_dim}xf32>", "lse": f"tensor<?x{heads}xf32>",
               "scores": f"tensor<?x{spec.heads}x?xf32>"}
    attributes = [f"scale = {_score.f32_text(scale)} : f32"]
    attributes += ["causal"] if causal else []
    given = [("window", window, 1), ("sinks", sinks, 0), ("stat_rows", stat_rows if "scores" in returns else None, 0)]
    numbers = [(name, _check.integer(value, name, low)) for name, value, low in given if value is not None]
    attributes += [f"{name} = {value} : i64" for name, value in numbers if value]
    if "scores" in returns:
        attributes.append(f"stat = #kvcache.stat<{stat}>")
    operands = [("%q", query), ("%c", "!kv"), ("%b", "!kvcache.batch")]
    operands += [("%sl", f"tensor<{heads}xf32>")] if sink_logits else []
    return _MODULE.format(
        cache=spec, arguments=", ".join(f"{name}: {kind}" for name, kind in operands),
        types=", ".join(results[name] for name in returns), count=len(returns),
        sinks="sink_logits %sl " if sink_logits else "",
        returns=", ".join("stats" if name == "scores" else name for name in returns), attributes=", ".join(attributes),
        score=score, operands=", ".join(kind for _, kind in operands),
        names=", ".join(f"%r#{i}" for i in range(len(returns))) if len(returns) > 1 else "%r")


@functools.lru_cache(maxsize=256)
def _compiled(module):
    return _jit.jit(module, "attention")


def attention(q, cache, *, batch=None, causal=True, window=None, sinks=None, scale=None, score=None, sink_logits=None,
              returns=("out",), stat="sum", stat_rows=None):
    """softmax(q k^T) v over what a cache holds.

    q: rows x query heads x channels, f32. batch: which rows belong to which sequence (default: that of the cache's last
    append). causal: a row sees no later positions; window: only that many newest ones, and the positions below `sinks`.
    scale: of the scores (default: 1 / sqrt(channels)). score: a function of (score, batch entry, query head, query position,
    key position) that gives the new score; it is traced, see kvc.where, kvc.exp, kvc.soft_cap, kvc.alibi. sink_logits: for
    each query head, a logit that joins the softmax. returns: of "out" (rows x query heads x channels), "lse" (rows x query
    heads) and "scores" (entries x KV heads x slots): the `stat` (sum, max or count) of the probabilities over the last
    `stat_rows` rows of each entry (None: all) and the query heads of a KV head.

    Returns one array, or a tuple where `returns` names several.
    """
    if not isinstance(cache, Cache):
        raise TypeError(f"expects a kvc.Cache, but got {type(cache).__name__}")
    spec = cache._known()
    q = np.asarray(q)
    if q.ndim != 3:
        raise ValueError(f"expects q of three axes (rows, heads, channels), but got {q.ndim}")
    returns = (returns,) if isinstance(returns, str) else tuple(returns)
    if not returns or len(set(returns)) != len(returns) or not set(returns) <= set(_RESULTS):
        raise ValueError(f"expects returns of {', '.join(_RESULTS)}, each at most once, but got {returns}")
    if batch is None:
        batch = cache.last_batch
        if batch is None or batch.rows != len(q):
            raise ValueError(f"expects a batch for {len(q)} rows: the cache's last append does not tell, it had "
                             f"{batch.rows if batch else 'none'}")
    order = tuple(name for name in _RESULTS if name in returns)
    module = text(spec, q.shape[1], causal=causal, window=window, sinks=sinks,
                  scale=1 / math.sqrt(spec.key_dim) if scale is None else _check.number(scale, "scale"),
                  score=_score.region(score) if score else "", returns=order, stat=stat, stat_rows=stat_rows,
                  sink_logits=sink_logits is not None)
    arguments = [q, cache, Batch.of(batch)] + ([sink_logits] if sink_logits is not None else [])
    results = _compiled(module)(*arguments)
    by_name = dict(zip(order, results if len(order) > 1 else (results,)))
    return by_name[returns[0]] if len(returns) == 1 else tuple(by_name[name] for name in returns)

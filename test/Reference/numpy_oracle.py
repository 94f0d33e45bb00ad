# An independent implementation of docs/spec/formats.md and docs/spec/cache-semantics.md in NumPy.
"""Tests compare the oracle of lib/Reference with it. Arrays of whole tables instead of slots, masks instead of lists.

Nothing here is derived from the C++ code; where the two differ, the spec decides.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

INF = np.inf


# ---------------------------------------------------------------------------------------------------------------------
# Formats
# ---------------------------------------------------------------------------------------------------------------------


def round_bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), kept.view(np.float32))


def round_to(kind, x):
    """f32 numbers rounded to a floating point type, as f32."""
    x = np.asarray(x).astype(np.float32)
    with np.errstate(over="ignore"):
        return {"f32": lambda: x, "f16": lambda: x.astype(np.float16).astype(np.float32),
                "bf16": lambda: round_bf16(x)}[kind]()


@dataclass(frozen=True)
class Format:
    name: str
    group: int = 32
    axis: str = "token"
    symmetric: bool = False
    scale: str = "f16"

    @property
    def bits(self):
        return int(self.name[3:])

    @property
    def unit(self):
        """Codes that fill whole bytes."""
        return 8 // math.gcd(self.bits, 8)

    @property
    def integer(self):
        return self.name.startswith("int")

    def __str__(self):
        if not self.integer:
            return self.name
        fields = [f"group = {self.group}", f"axis = {self.axis}", f"scale = {self.scale}"]
        return f"{self.name}<{', '.join(fields + ['symmetric'] * self.symmetric)}>"

    def groups(self, x):
        """Values of groups, the last axis of x, after a round trip."""
        x = np.asarray(x).astype(np.float32)
        with np.errstate(all="ignore"):
            if self.symmetric:
                top = np.float32(2 ** (self.bits - 1) - 1)
                zero = np.zeros_like(x[..., :1])
                scale = np.abs(x).max(-1, keepdims=True) / top
                low = -top
            else:
                top = np.float32(2**self.bits - 1)
                zero = round_to(self.scale, x.min(-1, keepdims=True))
                scale = (x.max(-1, keepdims=True) - x.min(-1, keepdims=True)) / top
                low = np.float32(0)
            scale = np.maximum(round_to(self.scale, scale), np.float32(1e-8))
            code = np.clip(np.round((x - zero) / scale), low, top)
            value = code * scale + zero
            bad = ~np.isfinite(x).all(-1, keepdims=True) | ~np.isfinite(scale) | ~np.isfinite(zero)
            return np.where(bad, np.float32(np.nan), value).astype(np.float32)

    def store(self, x):
        """What is read back of slots x heads x channels; per channel the slots are whole groups."""
        if not self.integer:
            return round_to(self.name, x)
        n, h, d = x.shape
        if self.axis == "token":
            return self.groups(x.reshape(n, h, d // self.group, self.group)).reshape(n, h, d)
        by_channel = x.reshape(n // self.group, self.group, h, d).transpose(0, 2, 3, 1)
        return self.groups(by_channel).transpose(0, 3, 1, 2).reshape(n, h, d)


# ---------------------------------------------------------------------------------------------------------------------
# Caches
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rope:
    base: float
    dims: int
    pairing: str

    def __str__(self):
        return f"#kvcache.rope<base = {self.base} : f32, dims = {self.dims}, pairing = {self.pairing}>"

    def __call__(self, x, position):
        """x: ... x heads x channels, position: one for each of the leading indices."""
        x = np.array(x, np.float64)
        half = self.dims // 2
        i = np.arange(half)
        neighbours, halves = (2 * i, 2 * i + 1), (i, i + half)
        first, second = halves if self.pairing == "half" else neighbours
        into = neighbours if self.pairing == "adjacent" else halves
        theta = np.asarray(position, np.float64)[..., None, None] * self.base ** (-2.0 * i / self.dims)
        # A product of complex numbers would make NaN of one infinite channel.
        with np.errstate(invalid="ignore"):
            a, b, turn = x[..., first], x[..., second], np.exp(1j * theta)
            x[..., into[0]], x[..., into[1]] = a * turn.real - b * turn.imag, a * turn.imag + b * turn.real
        return x


@dataclass(frozen=True)
class CacheType:
    heads: int
    dim: int
    v_dim: int
    page: int
    k: Format
    v: Format
    residual: int = 0
    tail: str = "f16"
    stored: bool = False
    per_head: bool = False
    window: int = 0
    sinks: int = 0
    rope: Rope = None
    planes: tuple = ()

    def __str__(self):
        text = f"heads = {self.heads}, dim = {self.dim}, v_dim = {self.v_dim}, page = {self.page}, k = {self.k}, v = {self.v}"
        text += f", residual = {self.residual}" if self.residual else ""
        text += f", tail = {self.tail}"
        text += ", positions = stored" if self.stored else ""
        text += ", tables = per_head" if self.per_head else ""
        text += f", window = {self.window}, sinks = {self.sinks}" if self.window else ""
        text += f", rope = {self.rope}" if self.rope else ""
        text += f", planes = [{', '.join(self.planes)}]" if self.planes else ""
        return f"!kvcache.cache<{text}>"

    @property
    def seal_group(self):
        return int(np.lcm.reduce([f.group for f in (self.k, self.v) if f.integer and f.axis == "channel"] + [1]))

    @property
    def has_tail(self):
        return self.seal_group > 1 or self.residual > 0

    @property
    def table_heads(self):
        return 1 if self.per_head else self.heads


@dataclass
class Table:
    """Slots x heads of the table (x channels). low, high: pages x heads x channels."""

    key: np.ndarray
    value: np.ndarray
    position: np.ndarray
    score: np.ndarray
    norm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sealed: int = 0

    @staticmethod
    def empty(t):
        h = t.table_heads
        return Table(np.zeros((0, h, t.dim)), np.zeros((0, h, t.v_dim)), np.zeros(0, np.int64), np.zeros((0, h)),
                     np.zeros((0, h)), np.zeros((0, h, t.dim)), np.zeros((0, h, t.dim)))

    def __len__(self):
        return len(self.position)

    def copy(self):
        return replace(self, **{n: getattr(self, n).copy() for n in
                                ("key", "value", "position", "score", "norm", "low", "high")})


@dataclass
class Cache:
    type: CacheType
    tables: list = field(default_factory=list)  # [sequence][table of the sequence]

    @staticmethod
    def empty(t, sequences):
        return Cache(t, [[Table.empty(t) for _ in range(t.heads if t.per_head else 1)] for _ in range(sequences)])

    def copy(self):
        return Cache(self.type, [[t.copy() for t in s] for s in self.tables])

    def of(self, sequence, head):
        """Table and the head's index in it."""
        return (self.tables[sequence][head], 0) if self.type.per_head else (self.tables[sequence][0], head)

    def heads_of(self, table_index):
        return slice(table_index, table_index + 1) if self.type.per_head else slice(None)


@dataclass
class Batch:
    offsets: np.ndarray
    sequences: np.ndarray
    positions: np.ndarray

    def entries(self):
        for e, s in enumerate(self.sequences):
            yield e, int(s), slice(int(self.offsets[e]), int(self.offsets[e + 1]))


def summarise(t, table, pages):
    """Computes the summaries of pages from the keys that are read back."""
    if "minmax" not in t.planes:
        return
    count = -(-len(table) // t.page)
    for name, start, reduce in (("low", INF, np.min), ("high", -INF, np.max)):
        old = getattr(table, name)
        new = np.full((count, t.table_heads, t.dim), start)
        new[: min(count, len(old))] = old[:count]
        for p in pages:
            new[p] = reduce(table.key[p * t.page : (p + 1) * t.page], axis=0)
        setattr(table, name, new)


def all_pages(t, table):
    return range(-(-len(table) // t.page))


def seal_to(t, table, target):
    if target > table.sealed:
        part = slice(table.sealed, target)
        table.key[part] = t.k.store(table.key[part])
        table.value[part] = t.v.store(table.value[part])
        table.sealed = target


def seal_old(t, table):
    g = t.seal_group
    seal_to(t, table, max(len(table) - t.residual, 0) // g * g)


def tail_of(t, x):
    return round_to(t.tail if t.has_tail else "f32", x).astype(np.float64)


def write(t, table, key, value, positions):
    """Appends rows x heads x channels, row by row, without sealing of a tail."""
    for k, v, p in zip(key, value, positions):
        n = len(table)
        slot = n
        if t.window:
            slot = p if p < t.sinks else t.sinks + (p - t.sinks) % t.window
            assert slot <= n
        new_k, new_v = tail_of(t, k)[None], tail_of(t, v)[None]
        if not t.has_tail:
            new_k, new_v = t.k.store(new_k), t.v.store(new_v)
        row = {"key": new_k, "value": new_v, "position": np.array([p if t.stored else slot]),
               "score": np.zeros((1, t.table_heads)), "norm": np.sqrt((np.asarray(k, np.float64) ** 2).sum(-1))[None]}
        for name, x in row.items():
            old = getattr(table, name)
            setattr(table, name, np.concatenate([old[:slot], x, old[slot + 1 :]]))
        if "minmax" in t.planes:
            page = slot // t.page
            if page == len(table.low):
                table.low = np.concatenate([table.low, k[None]])
                table.high = np.concatenate([table.high, k[None]])
            else:
                table.low[page] = np.minimum(table.low[page], k)
                table.high[page] = np.maximum(table.high[page], k)
        if not t.has_tail:
            table.sealed = len(table)


def append(cache, key, value, batch, rope=None):
    cache = cache.copy()
    t = cache.type
    key = np.asarray(key, np.float64)
    if rope:
        key = rope(key, batch.positions)
    for _, s, rows in batch.entries():
        for i, table in enumerate(cache.tables[s]):
            h = cache.heads_of(i)
            write(t, table, key[rows, h], np.asarray(value, np.float64)[rows, h], batch.positions[rows])
            seal_old(t, table)
    return cache


def import_dense(cache, key, value, lengths, batch, layout):
    cache = cache.copy()
    if layout == "hnd":
        key, value = key.swapaxes(1, 2), value.swapaxes(1, 2)
    for e, s, _ in batch.entries():
        for i in range(len(cache.tables[s])):
            table = cache.tables[s][i] = Table.empty(cache.type)
            h, n = cache.heads_of(i), lengths[e]
            write(cache.type, table, key[e, :n, h].astype(np.float64), value[e, :n, h].astype(np.float64), np.arange(n))
            seal_old(cache.type, table)
    return cache


def keep(t, table, kept):
    kept = np.asarray(kept, np.int64)
    table.sealed = int((kept < table.sealed).sum())
    for name in ("key", "value", "position", "score", "norm"):
        setattr(table, name, getattr(table, name)[kept])
    table.low, table.high = table.low[:0], table.high[:0]
    summarise(t, table, all_pages(t, table))


def compact(cache, selection, batch):
    cache = cache.copy()
    for e, s, _ in batch.entries():
        for i, table in enumerate(cache.tables[s]):
            keep(cache.type, table, selection[e][i])
    return cache


def merge_slots(cache, selection, weights, batch, least):
    cache = cache.copy()
    t = cache.type
    for e, s, _ in batch.entries():
        for i, table in enumerate(cache.tables[s]):
            kept, old, w = selection[e][i], table.copy(), weights[e, i, : len(table)].astype(np.float64)
            unit = old.key[:, 0] / np.maximum(np.linalg.norm(old.key[:, 0], axis=-1, keepdims=True), 1e-300)
            rest = np.setdiff1d(np.arange(len(old)), kept)
            like = unit[rest] @ unit[kept].T
            into = kept[like.argmax(1)] if len(kept) else np.full(len(rest), -1)
            into = np.where(like.max(1, initial=-INF) >= least, into, -1)
            for slot in kept:
                group = np.concatenate([[slot], rest[into == slot]]).astype(np.int64)
                if len(group) == 1:
                    continue
                for name, form in (("key", t.k), ("value", t.v)):
                    mean = np.average(getattr(old, name)[group], axis=0, weights=w[group])[None]
                    if name == "key":
                        table.norm[slot] = np.linalg.norm(mean[0, 0])
                    stored = tail_of(t, mean)
                    getattr(table, name)[slot] = (form.store(stored) if slot < old.sealed else stored)[0]
                table.score[slot] = old.score[group].sum(0)
            keep(t, table, kept)
    return cache


def commit(cache, accepted, batch):
    cache = cache.copy()
    t = cache.type
    for _, s, rows in batch.entries():
        for table in cache.tables[s]:
            n, flags = len(table), accepted[rows] != 0
            if flags.all():
                continue
            old = n - len(flags)
            if t.seal_group > 1 and table.sealed > old:
                table.sealed = old // t.seal_group * t.seal_group
                table.key[table.sealed :] = tail_of(t, table.key[table.sealed :])
                table.value[table.sealed :] = tail_of(t, table.value[table.sealed :])
            keep(t, table, np.concatenate([np.arange(old), old + np.flatnonzero(flags)]))
            if not t.stored:
                table.position[:] = np.arange(len(table))
    return cache


def choose(scores, count, first, last):
    """Indices of `count` of the scores, ascending."""
    n = len(scores)
    if n <= count:
        return np.arange(n)
    key = np.where(np.isnan(scores), -INF, scores).astype(np.float64)
    forced = np.zeros(n, bool)
    forced[:first] = True
    forced[n - last :] = True
    order = np.lexsort((np.arange(n), -key, ~forced))
    return np.sort(order[:count])


def evict(cache, scores, batch, budget, first, last):
    cache = cache.copy()
    for e, s, _ in batch.entries():
        for i, table in enumerate(cache.tables[s]):
            if len(table) > budget:
                keep(cache.type, table, choose(scores[e, i, : len(table)], budget, first, last))
    return cache


def truncate(cache, lengths, batch):
    cache = cache.copy()
    t = cache.type
    for e, s, _ in batch.entries():
        for table in cache.tables[s]:
            n = int(lengths[e])
            if n >= len(table):
                continue
            for name in ("key", "value", "position", "score", "norm"):
                setattr(table, name, getattr(table, name)[:n])
            if table.sealed > n:
                table.sealed = n // t.seal_group * t.seal_group
                table.key[table.sealed :] = tail_of(t, table.key[table.sealed :])
                table.value[table.sealed :] = tail_of(t, table.value[table.sealed :])
            summarise(t, table, [n // t.page] if n % t.page else [])
    return cache


def rebase(cache, batch, rope):
    cache = cache.copy()
    t = cache.type
    for _, s, _ in batch.entries():
        for table in cache.tables[s]:
            index = np.arange(len(table))
            moved = table.position != index
            if not moved.any():
                continue
            turned = tail_of(t, rope(table.key, index - table.position))
            turned = np.where((index < table.sealed)[:, None, None], t.k.store(turned), turned)
            table.key = np.where(moved[:, None, None], turned, table.key)
            table.position = index
            summarise(t, table, all_pages(t, table))
    return cache


def accumulate(cache, update, stats, batch, decay):
    cache = cache.copy()
    for e, s, _ in batch.entries():
        for h in range(cache.type.heads):
            table, i = cache.of(s, h)
            x, old = stats[e, h, : len(table)], table.score[:, i]
            table.score[:, i] = {"add": old + x, "decay": np.float32(decay) * old + x, "max": np.maximum(old, x),
                                 "replace": x}[update]
    return cache


def seal(cache, batch):
    cache = cache.copy()
    g = cache.type.seal_group
    for _, s, _ in batch.entries():
        for table in cache.tables[s]:
            seal_to(cache.type, table, len(table) // g * g)
    return cache


def requantize(cache, t, batch):
    result = Cache.empty(t, len(cache.tables))
    for _, s, _ in batch.entries():
        for old, table in zip(cache.tables[s], result.tables[s]):
            write(t, table, old.key, old.value, old.position)
            table.position = old.position.copy()
            if "score" in cache.type.planes:
                table.score = old.score.copy()
            if "norm" in cache.type.planes:
                table.norm = old.norm.copy()
            seal_old(t, table)
    return result


def fork(cache, source, destination):
    cache = cache.copy()
    cache.tables[destination] = [table.copy() for table in cache.tables[source]]
    return cache


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def loaded_keys(t, table, i):
    keys = table.key[:, i]
    return t.rope(keys[:, None], table.position)[:, 0] if t.rope else keys


def units(cache, s, h, unit):
    """What scores and selections of a table speak of: slots, or pages with sealed slots."""
    table = cache.of(s, h)[0]
    return len(table) if unit == "token" else -(-table.sealed // cache.type.page)


def widest(cache, batch, unit):
    n = max([len(table) for _, s, _ in batch.entries() for table in cache.tables[s]], default=0)
    return n if unit == "token" else -(-n // cache.type.page)


def soft(scores, visible, extra=None):
    """Probabilities and log of the denominator; the last axis is softened."""
    live = np.where(visible, scores, -INF)
    top = live.max(-1, initial=-INF, keepdims=True)
    nothing = top == -INF
    with np.errstate(all="ignore"):
        weight = np.where(visible, np.exp(live - np.where(nothing, 0, top)), 0)
        total = weight.sum(-1, keepdims=True)
        if extra is not None:
            total = total + np.exp(extra - top)
        p = np.where(nothing | ~visible, 0, weight / total)
        lse = np.where(nothing, -INF, top + np.log(total))
    return p, lse[..., 0]


def weigh(p, value, visible):
    """Sum of visible values by their weights: what is not visible may hold anything."""
    with np.errstate(invalid="ignore"):
        return np.where(visible[..., None], p[..., None] * value[None], 0).sum(1)


def view(query, cache, batch, e, s, rows, h, scale, causal, window, sinks, chosen, tree):
    """Scores and visibility of one query head: rows x slots, with the positions of both."""
    t = cache.type
    kv = h // (query.shape[1] // t.heads)
    table, i = cache.of(s, kv)
    n, count = len(table), rows.stop - rows.start
    at, pos = batch.positions[rows][:, None], table.position[None, :]
    visible = np.ones((count, n), bool)
    if causal:
        visible &= pos <= at
    if window is not None:
        visible &= (at - pos < window) | (pos < sinks)
    if chosen is not None:
        unit, lists = chosen
        index = np.arange(n) if unit == "token" else np.arange(n) // t.page
        tail = (unit == "page") & (np.arange(n) >= table.sealed)
        visible &= (np.isin(index, lists[e][kv]) | tail)[None, :]
    if tree is not None and count:
        visible[:, n - count :] &= tree[rows, :count] != 0
    scores = np.float64(np.float32(scale)) * (query[rows, h].astype(np.float64) @ loaded_keys(t, table, i).T)
    return scores, visible, at, pos, table.value[:, i], n


def attention(query, caches, batch, scale, causal=False, window=None, sinks=0, selections=None, tree=None,
              sink_logits=None, score=None, stat=None, stat_rows=0, stat_stride=1, number=None):
    """out, lse and, with stat, stats."""
    count, heads, _ = query.shape
    first = caches[0].type
    out, lse = np.zeros((count, heads, first.v_dim)), np.full((count, heads), -INF)
    stats = np.full((len(batch.sequences), first.heads, widest(caches[0], batch, "token")), -INF)
    weights = np.zeros_like(stats)
    for e, s, rows in batch.entries():
        for kv in range(first.heads):
            stats[e, kv, : units(caches[0], s, kv, "token")] = 0
        for h in range(heads):
            parts = [view(query, c, batch, e, s, rows, h, scale, causal, window, sinks,
                          selections[j] if selections else None, tree if j + 1 == len(caches) else None)
                     for j, c in enumerate(caches)]
            scores = [score(x, e, h, at, pos) if score else x for x, _, at, pos, _, _ in parts]
            scores, visible = np.concatenate(scores, 1), np.concatenate([p[1] for p in parts], 1)
            p, lse[rows, h] = soft(scores, visible, None if sink_logits is None else np.float64(sink_logits[h]))
            value = np.concatenate([part[4] for part in parts])
            # Rows without weight give 0, whatever the values hold.
            out[rows, h] = weigh(p, value, visible & (lse[rows, h] != -INF)[:, None])
            later = np.arange(p.shape[0])[::-1]
            counted = ((later < stat_rows) | (stat_rows == 0)) & (later % stat_stride == 0)
            seen = stats[e, h // (heads // first.heads), : p.shape[1]]
            if stat in ("sum", "mean"):
                seen += p[counted].sum(0)
                alive = visible & (lse[rows, h] != -INF)[:, None]
                weights[e, h // (heads // first.heads), : p.shape[1]] += alive[counted].sum(0)
            elif stat == "decay":
                seen += (p * float(number) ** later[:, None])[counted].sum(0)
            elif stat == "hits":
                seen += (p > number)[counted].sum(0)
            elif stat == "max":
                seen[:] = np.maximum(seen, p[counted].max(0, initial=0))
            elif stat == "count":
                with np.errstate(divide="ignore"):
                    seen += (p > 1 / visible.sum(1, keepdims=True))[counted].sum(0)
    if stat == "mean":
        stats = stats / np.maximum(weights, 1)
    return (out, lse, stats) if stat else (out, lse)


def online_attention(query, cache, begin, end, batch, state, scale, causal=False, window=None, sinks=0):
    acc, top, total = (np.array(x, np.float64) for x in state)
    for e, s, rows in batch.entries():
        for h in range(query.shape[1]):
            scores, visible, _, _, value, n = view(query, cache, batch, e, s, rows, h, scale, causal, window, sinks, None, None)
            inside = (np.arange(n) >= begin) & (np.arange(n) < end)
            visible = visible & inside[None]
            p, lse = soft(scores, visible)
            best = np.maximum(top[rows, h], np.where(visible, scores, -INF).max(-1, initial=-INF))
            sees = visible & (best != -INF)[:, None]
            with np.errstate(all="ignore"):
                old = np.where(best == -INF, 1, np.exp(top[rows, h] - best))
                fresh = np.where(best == -INF, 0, np.exp(lse - best))
                acc[rows, h] = acc[rows, h] * old[:, None] + fresh[:, None] * weigh(p, value, sees)
            total[rows, h] = total[rows, h] * old + fresh
            top[rows, h] = best
    return acc, top, total


def merge_states(states):
    lses = np.stack([lse for _, lse in states])
    counts = lses != -INF
    _, lse = soft(np.moveaxis(lses, 0, -1), np.moveaxis(counts, 0, -1))
    with np.errstate(invalid="ignore"):
        parts = np.exp(lses - lse)[..., None] * np.stack([out for out, _ in states])
    return np.where(counts[..., None], parts, 0).sum(0), lse


def score(kind, query, cache, batch):
    t = cache.type
    unit = "page" if kind == "bound" else "token"
    result = np.full((len(batch.sequences), t.heads, widest(cache, batch, unit)), -INF)
    for e, s, rows in batch.entries():
        for h in range(t.heads):
            table, i = cache.of(s, h)
            n = units(cache, s, h, unit)
            if kind == "plane":
                result[e, h, :n] = table.score[:, i]
            elif kind == "key_norm":
                result[e, h, :n] = table.norm[:, i]
            else:
                group = query.shape[1] // t.heads
                q = query[rows, h * group : (h + 1) * group].reshape(-1, 1, t.dim).astype(np.float64)
                if kind == "dot":
                    each = (q * loaded_keys(t, table, i)[None]).sum(-1)
                else:
                    each = np.maximum(q * table.low[None, :n, i], q * table.high[None, :n, i]).sum(-1)
                result[e, h, :n] = each.max(0, initial=-INF)
    return result


def pool(mode, scores, kernel):
    half, n = kernel // 2, scores.shape[2]
    padded = np.pad(scores, ((0, 0), (0, 0), (half, half)), constant_values=-INF)
    windows = np.stack([padded[:, :, i : i + n] for i in range(kernel)])
    live = windows > -INF
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(live, windows, 0).sum(0) / live.sum(0)
    return np.where(scores == -INF, -INF, windows.max(0) if mode == "max" else mean)


def topk(unit, scores, cache, batch, k, first, last):
    return [[choose(scores[e, h, : units(cache, s, h, unit)], k, first, last) for h in range(cache.type.heads)]
            for e, s, _ in batch.entries()]


def threshold(unit, scores, cache, batch, value, first, last):
    lists = []
    for e, s, _ in batch.entries():
        counts = [units(cache, s, h, unit) for h in range(cache.type.heads)]
        lists.append([np.array([i for i in range(n) if i < first or i >= n - last or scores[e, h, i] >= value], np.int64)
                      for h, n in enumerate(counts)])
    return lists


def map_scores(function, *scores):
    with np.errstate(all="ignore"):
        return np.where(np.any([x == -INF for x in scores], axis=0), -INF, function(*scores))


def export(plane, cache, batch, layout):
    t = cache.type
    dim = t.dim if plane == "k" else t.v_dim
    dense = np.zeros((len(batch.sequences), widest(cache, batch, "token"), t.heads, dim))
    for e, s, _ in batch.entries():
        for h in range(t.heads):
            table, i = cache.of(s, h)
            dense[e, : len(table), h] = (table.key if plane == "k" else table.value)[:, i]
    return dense if layout == "nhd" else dense.swapaxes(1, 2)

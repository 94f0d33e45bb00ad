# Types of caches, caches, and batches of rows.
import dataclasses
import functools

import numpy as np

from . import _check, _jit, _kvc


@dataclasses.dataclass(frozen=True)
class CacheSpec:
    """The type of a cache; fields as those of `!kvcache.cache`. `str(spec)` is the type.

    heads: KV heads; dim, v_dim: channels of a key and of a value; k, v: storage formats (f16, int8, int4, ...,
    with parameters: "int4<axis = channel>"); page: slots of a page; residual: newest tokens kept exact, of type `tail`;
    positions: implicit or stored; tables: per_sequence or per_head; window, sinks: a ring; rope: as in the dialect;
    planes: of minmax, score, norm.
    """

    heads: int
    dim: int
    k: str = "f16"
    v: str = "f16"
    page: int = 16
    residual: int = 0
    v_dim: int = None
    tail: str = None
    positions: str = None
    tables: str = None
    window: int = 0
    sinks: int = 0
    rope: str = None
    planes: tuple = ()

    def __post_init__(self):
        for name, low in (("heads", 1), ("dim", 1), ("page", 1), ("residual", 0), ("window", 0), ("sinks", 0)):
            _check.integer(getattr(self, name), name, low)
        if self.v_dim is not None:
            _check.integer(self.v_dim, "v_dim", 1)
        texts = {name: getattr(self, name) for name in ("k", "v", "tail", "positions", "tables", "rope")}
        for name, value in texts.items():
            if not isinstance(value, str) and not (value is None and name not in "kv"):
                raise TypeError(f"expects a string as {name}, but got {value!r}")
        if isinstance(self.planes, str) or not all(isinstance(plane, str) for plane in self.planes):
            raise TypeError(f"expects a tuple of names as planes, but got {self.planes!r}")
        # What the fields mean together is the dialect's to say.
        _kvc.check_cache_type(str(self))

    def __str__(self):
        fields = {
            "heads": self.heads, "dim": self.dim, "v_dim": self.v_dim, "page": self.page, "k": self.k, "v": self.v,
            "residual": self.residual or None, "tail": self.tail, "positions": self.positions, "tables": self.tables,
            "window": self.window or None, "sinks": self.sinks or None, "rope": self.rope,
            "planes": f"[{', '.join(self.planes)}]" if self.planes else None,
        }
        return f"!kvcache.cache<{', '.join(f'{k} = {v}' for k, v in fields.items() if v is not None)}>"

    @property
    def key_dim(self):
        return self.dim

    @property
    def value_dim(self):
        return self.v_dim or self.dim


class Batch:
    """Which rows belong to which sequence: rows `query_offsets[i]` to `query_offsets[i + 1] - 1` to `sequences[i]`, each at
    its position (0 = the first token of its sequence)."""

    def __init__(self, query_offsets, sequences, positions):
        names = ("query_offsets", "sequences", "positions")
        arrays = [_integers(*each) for each in zip((query_offsets, sequences, positions), names)]
        self.query_offsets, self.sequences, self.positions = arrays
        offsets = self.query_offsets
        if len(offsets) != len(self.sequences) + 1 or offsets[0] != 0 or offsets[-1] != len(self.positions):
            raise ValueError(f"expects query_offsets from 0 to the number of positions ({len(self.positions)}), one more "
                             f"than sequences ({len(self.sequences)}), but got {offsets.tolist()}")
        self.handle = _kvc.Batch(_jit.device(), self.sequences.tolist(), np.diff(offsets).tolist(),
                                 self.positions.tolist())

    @classmethod
    def of(cls, value):
        """A batch, or what makes one: (query_offsets, sequences, positions)."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, (tuple, list)) or len(value) != 3:
            raise TypeError("expects a kvc.Batch or (query_offsets, sequences, positions), but got "
                            f"{type(value).__name__}")
        return cls(*value)

    @property
    def rows(self):
        return len(self.positions)

    def __repr__(self):
        return f"kvc.Batch({self.query_offsets.tolist()}, {self.sequences.tolist()}, {self.positions.tolist()})"


def _integers(value, what):
    array = np.asarray(value)
    if array.size == 0:
        array = array.astype(np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"expects {what} of one axis of integers, but got {array.dtype} of {array.ndim} axes")
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise ValueError(f"expects {what} that fit i32, but got {array.min()} to {array.max()}")
    return array.astype(np.int32)


_APPEND = """\
// Keys and values of a batch go to the cache.
!kv = {cache}
func.func @append(%c: !kv, %k: {k}, %v: {v}, %b: !kvcache.batch) -> !kv {{
  %r = kvcache.append %c, %k, %v at %b {rope}: !kv, {k}, {v}
  return %r : !kv
}}
"""

_EXPORT = """\
// What a cache holds, as dense tensors: entries x slots x heads x channels.
!kv = {cache}
func.func @export(%c: !kv, %b: !kvcache.batch) -> (tensor<?x?x{heads}x{dim}xf32>, tensor<?x?x{heads}x{v_dim}xf32>) {{
  %k = kvcache.export k %c at %b {{layout = #kvcache.dense_layout<nhd>}} : !kv -> tensor<?x?x{heads}x{dim}xf32>
  %v = kvcache.export v %c at %b {{layout = #kvcache.dense_layout<nhd>}} : !kv -> tensor<?x?x{heads}x{v_dim}xf32>
  return %k, %v : tensor<?x?x{heads}x{dim}xf32>, tensor<?x?x{heads}x{v_dim}xf32>
}}
"""


@functools.lru_cache(maxsize=256)
def _append(spec, rope):
    k, v = (f"tensor<?x{spec.heads}x{dim}xf32>" for dim in (spec.key_dim, spec.value_dim))
    return _jit.jit(_APPEND.format(cache=spec, k=k, v=v, rope=f"by {rope} " if rope else ""), "append")


@functools.lru_cache(maxsize=256)
def _export(spec):
    return _jit.jit(_EXPORT.format(cache=spec, heads=spec.heads, dim=spec.key_dim, v_dim=spec.value_dim), "export")


class Cache:
    """The keys and values of one attention layer for `sequences` sequences of at most `capacity` slots, in pages from one
    pool of `pages` pages (0: every sequence can be full). Updated in place; several threads may use it."""

    def __init__(self, spec, sequences, capacity, pages=0):
        if not isinstance(spec, CacheSpec):
            raise TypeError(f"expects a kvc.CacheSpec, but got {type(spec).__name__}")
        function = _append(spec, None)
        port = function._arguments[0]
        self.spec = spec
        self.type = port["type"]
        self.sequences = sequences
        self.capacity = capacity
        self.last_batch = None
        self.handle = _kvc.Cache(function._module, port["spec"], sequences, capacity, pages)

    @classmethod
    def of_handle(cls, handle, ir_type):
        """A cache that a function returned. It has no `spec`, so only operations of the runtime."""
        cache = cls.__new__(cls)
        cache.spec, cache.type, cache.handle, cache.last_batch = None, ir_type, handle, None
        cache.sequences = cache.capacity = None
        return cache

    def __repr__(self):
        return f"<kvc.Cache {self.type}>"

    def _known(self):
        if self.spec is None:
            raise TypeError("expects a cache that was made from a kvc.CacheSpec, but got a function's result")
        return self.spec

    def append(self, k, v, batch=None, *, sequences=None, rows=None, rope=None):
        """Appends rows (rows x heads x channels, f32) and returns their batch. Without a batch they go to `sequences`
        (default: 0), `rows[i]` rows each (default: equal shares), at the positions that come next. rope: text of a
        `#kvcache.rope` by which keys are rotated first."""
        function = _append(self._known(), rope)
        for name, array in (("k", np.asarray(k)), ("v", np.asarray(v))):
            if array.ndim != 3 or array.dtype.kind not in "fiu":
                raise TypeError(f"expects {name} of numbers in three axes (rows, heads, channels), but got {array.dtype} "
                                f"in {array.ndim}")
        if batch is None:
            batch = self.next_batch(len(k), sequences, rows)
        elif sequences is not None or rows is not None:
            raise ValueError("expects a batch, or sequences and rows, but got both")
        batch = Batch.of(batch)
        function(self, k, v, batch)
        self.last_batch = batch
        return batch

    def next_batch(self, count, sequences=None, rows=None):
        """The batch of `count` rows that come next in `sequences`."""
        sequences = [0] if sequences is None else list(sequences)
        if rows is None:
            if not sequences or count % len(sequences):
                raise ValueError(f"expects rows for {len(sequences)} sequences, but got {count} in all: say how many with "
                                 "rows")
            rows = [count // len(sequences)] * len(sequences)
        if len(rows) != len(sequences) or sum(rows) != count or min(rows, default=0) < 0:
            raise ValueError(f"expects a count for each of {len(sequences)} sequences, {count} in all, but got "
                             f"{list(rows)}")
        positions = [self.handle.position(s) + np.arange(n) for s, n in zip(sequences, rows)]
        return Batch(np.cumsum([0, *rows]), sequences, np.concatenate([*positions, np.zeros(0, int)]).astype(np.int64))

    def fork(self, source, destination):
        """Makes one sequence a copy of another; pages are shared until one side writes."""
        self.handle.fork(source, destination)

    def truncate(self, sequence, length):
        """Drops the slots of a sequence from `length` on. A sealed group that is cut goes back to the tail as what it decodes to."""
        self.handle.truncate(sequence, length)

    def clear(self, sequence):
        """Drops everything of a sequence; it is whole again, also after a failed call."""
        self.handle.clear(sequence)

    def length(self, sequence=0, head=0):
        """Slots in use (of a head's table where there is one per head)."""
        return self.handle.length(sequence, head)

    def position(self, sequence=0):
        """Position of the next token."""
        return self.handle.position(sequence)

    def export(self, sequences=None):
        """Keys and values as they decode: two arrays, sequences x slots x heads x channels, zero past a sequence's end."""
        spec = self._known()
        sequences = range(self.sequences) if sequences is None else sequences
        ids = list(sequences)
        return _export(spec)(self, Batch([0] * (len(ids) + 1), ids, []))

    def clone(self):
        """A second cache that shares all pages; whoever writes first copies."""
        copy = Cache.of_handle(self.handle.clone(), self.type)
        copy.spec, copy.sequences, copy.capacity = self.spec, self.sequences, self.capacity
        return copy

    def statistics(self):
        """Pages, slots and bytes in use, as a dictionary; see kvc_cache_statistics_t."""
        return self.handle.statistics()


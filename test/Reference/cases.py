# Random programs over the kvcache dialect: the module as text beside what NumPy makes of it.
"""`Program(seed)` builds one function of appends, changes and reads of caches. `text()` is the module, `arguments` the
arrays of its arguments, `results` what each result must be, by numpy_oracle."""

from dataclasses import replace

import numpy as np
import numpy_oracle as oracle
from numpy_oracle import Batch, Cache, CacheType, Format, Rope

SEQUENCES = 3
SCALES = ("f16", "bf16", "f32")


def random_format(rng, dim, page):
    name = rng.choice(["f32", "f16", "bf16", "int8", "int4", "int3", "int2"])
    if not name.startswith("int"):
        return Format(name)
    axis = rng.choice(["token", "channel"])
    unit = Format(name).unit
    span = dim if axis == "token" else page
    groups = [g for g in range(unit, span + 1, unit) if span % g == 0]
    if not groups:
        return Format("f16")
    return Format(str(name), int(rng.choice(groups)), str(axis), bool(rng.random() < 0.3), str(rng.choice(SCALES)))


def random_rope(rng, dim):
    dims = int(rng.integers(1, dim // 2 + 1)) * 2
    return Rope(float(rng.choice([100.0, 10000.0])), dims, str(rng.choice(["half", "adjacent"])))


def random_type(rng):
    heads, dim, v_dim = int(rng.choice([1, 2, 3])), int(rng.choice([4, 6, 8, 16])), int(rng.choice([4, 8, 12]))
    page = int(rng.choice([1, 2, 4, 8, 16]))
    t = CacheType(heads, dim, v_dim, page, random_format(rng, dim, page), random_format(rng, v_dim, page))
    t = replace(t, tail=str(rng.choice(["f16", "f32", "bf16"])), stored=bool(rng.random() < 0.6),
                per_head=bool(rng.random() < 0.4))
    if rng.random() < 0.4 and (t.k.integer or t.v.integer):
        t = replace(t, residual=int(rng.choice([1, 3, 8])))
    channel = any(f.integer and f.axis == "channel" for f in (t.k, t.v))
    if not t.has_tail and not channel and t.stored and rng.random() < 0.3:
        t = replace(t, window=int(rng.choice([3, 8])), sinks=int(rng.choice([0, 2])))
    if rng.random() < 0.2:
        t = replace(t, rope=random_rope(rng, dim))
    return replace(t, planes=tuple(p for p in ("minmax", "score", "norm") if rng.random() < 0.5))


class Program:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.arguments, self.types, self.lines, self.results, self.used = [], [], [], [], set()
        self.names = 0
        # A few programs hold values that are not finite; statistics of those are not compared.
        self.wild = self.rng.random() < 0.15
        t = random_type(self.rng)
        self.cache = (self.argument(str(t), []), Cache.empty(t, SEQUENCES))
        self.clock = np.zeros(SEQUENCES, np.int64)
        for _ in range(int(self.rng.integers(2, 5))):
            self.step()
        self.final()

    # ----- text -----

    def name(self):
        self.names += 1
        return f"%v{self.names}"

    def argument(self, kind, arrays):
        name = self.name()
        self.types.append((name, kind))
        self.arguments += arrays
        return name

    def emit(self, text, count=1):
        names = [self.name() for _ in range(count)]
        self.lines.append(f"{', '.join(names)} = {text}")
        return names if count > 1 else names[0]

    def give(self, name, kind, value, exact=False):
        self.results.append((name, kind, np.asarray(value), exact))

    def text(self):
        body = "\n".join(f"  {line}" for line in self.lines)
        names, kinds = ", ".join(r[0] for r in self.results), ", ".join(r[1] for r in self.results)
        return (f"func.func @f({', '.join(f'{n}: {k}' for n, k in self.types)}) -> ({kinds}) {{\n{body}\n"
                f"  return {names} : {kinds}\n}}\n")

    # ----- values -----

    @property
    def t(self):
        return self.cache[1].type

    def set(self, name, value, kind):
        self.used.add(kind)
        self.cache = (name, value)

    def normal(self, *shape):
        x = self.rng.standard_normal(shape).astype(np.float32) * np.float32(self.rng.choice([0.5, 2.0, 8.0]))
        if self.wild and x.size:
            x.reshape(-1)[self.rng.integers(x.size)] = self.rng.choice([np.nan, np.inf, -np.inf, 1e6, -1e-40])
        return x

    def batch(self, sequences=None, rows=None):
        """A batch of some sequences, the rows at their next positions."""
        if sequences is None:
            sequences = self.rng.permutation(SEQUENCES)[: self.rng.integers(0, SEQUENCES + 1, endpoint=False)]
            sequences = sequences if len(sequences) else np.array([self.rng.integers(SEQUENCES)])
        counts = [int(self.rng.choice([0, 1, 1, 2, 5, 9])) if rows is None else rows for _ in sequences]
        if not self.t.stored:
            self.clock = np.array([len(self.cache[1].tables[s][0]) for s in range(SEQUENCES)])
        positions = [self.clock[s] + np.arange(n) for s, n in zip(sequences, counts)]
        for s, n in zip(sequences, counts):
            self.clock[s] += n
        batch = Batch(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), np.array(sequences, np.int32),
                      np.concatenate(positions + [[]]).astype(np.int32))
        return self.argument("!kvcache.batch", [batch.offsets, batch.sequences, batch.positions]), batch

    def tensor(self, x):
        kind = {"float32": "f32", "int32": "i32", "int8": "i8"}[x.dtype.name]
        shape = ["?"] + [str(n) for n in x.shape[1:]]
        return self.argument(f"tensor<{'x'.join(shape)}x{kind}>", [x])

    # ----- steps -----

    def step(self):
        batch_name, batch = self.batch()
        self.append(batch_name, batch)
        self.attention(batch_name, batch)
        if not self.t.window and self.rng.random() < 0.3:
            accepted = self.rng.integers(0, 2, len(batch.positions)).astype(np.int8)
            name = self.emit(f"kvcache.commit {self.cache[0]} accept {self.tensor(accepted)} at {batch_name} : {self.t}, tensor<?xi8>")
            self.set(name, oracle.commit(self.cache[1], accepted, batch), "commit")
        changes = [self.truncate, self.seal, self.fork, self.requantize, self.import_dense, self.evict, self.compact,
                   self.rebase, self.accumulate, self.merge_slots]
        for i in self.rng.permutation(len(changes))[:2]:
            changes[i]()

    def append(self, batch_name, batch):
        t, n = self.t, len(batch.positions)
        k, v = self.normal(n, t.heads, t.dim), self.normal(n, t.heads, t.v_dim)
        rope = random_rope(self.rng, t.dim) if not t.rope and self.rng.random() < 0.4 else None
        kinds = f"({t}, tensor<?x{t.heads}x{t.dim}xf32>, tensor<?x{t.heads}x{t.v_dim}xf32>, !kvcache.batch) -> {t}"
        properties = f" <{{rope = {rope}}}>" if rope else ""
        name = self.emit(f'"kvcache.append"({self.cache[0]}, {self.tensor(k)}, {self.tensor(v)}, {batch_name})'
                         f"{properties} : {kinds}")
        self.set(name, oracle.append(self.cache[1], k, v, batch, rope), "append")

    def selection(self, batch_name, batch, query_name, q, heads):
        """A selection of pages or slots by topk or threshold over some score, or what is computed from it."""
        t = self.t
        kinds = ["dot"] + ["bound"] * ("minmax" in t.planes and not t.rope) + ["key_norm"] * ("norm" in t.planes) + \
            ["plane"] * ("score" in t.planes)
        kind = str(self.rng.choice(kinds))
        unit = "page" if kind == "bound" else "token"
        scores = oracle.score(kind, q, self.cache[1], batch)
        shape = f"tensor<?x{t.heads}x?xf32>"
        if kind in ("dot", "bound"):
            name = self.emit(f"kvcache.score {kind} {query_name}, {self.cache[0]} at {batch_name} : "
                             f"(tensor<?x{heads}x{t.dim}xf32>, {t}, !kvcache.batch) -> {shape}")
        else:
            name = self.emit(f'"kvcache.score"({self.cache[0]}, {batch_name}) <{{kind = #kvcache<score_kind {kind}>}}> : '
                             f"({t}, !kvcache.batch) -> {shape}")
        self.give(name, shape, scores)
        if unit == "token" and self.rng.random() < 0.5:
            mode, kernel = str(self.rng.choice(["max", "mean"])), int(self.rng.choice([1, 3, 5]))
            scores = oracle.pool(mode, scores, kernel)
            name = self.emit(f"kvcache.pool {mode} {name} {{kernel = {kernel} : i64}} : {shape}")
            self.give(name, shape, scores)
        if self.rng.random() < 0.3:
            lower = oracle.map_scores(np.negative, scores)
            less = self.emit(f"kvcache.map_scores {name} {{\n  ^bb0(%x: f32):\n    %y = arith.negf %x : f32\n"
                             f"    kvcache.yield %y\n  }} : {shape}")
            scores = oracle.map_scores(lambda a, b: a * a + b, lower, scores)
            name = self.emit(f"kvcache.map_scores {less}, {name} {{\n  ^bb0(%x: f32, %y: f32):\n    %z = arith.mulf %x, %x : f32\n"
                             f"    %s = arith.addf %z, %y : f32\n    kvcache.yield %s\n  }} : {shape}")
            self.give(name, shape, scores)
            self.used.add("map_scores")
        first, last = int(self.rng.integers(0, 3)), int(self.rng.integers(0, 3))
        if self.rng.random() < 0.3:
            seen = scores[np.isfinite(scores)]
            value = float(np.float32((np.median(seen) if len(seen) else 0.0) + 0.0071))
            chosen = oracle.threshold(unit, scores, self.cache[1], batch, value, first, last)
            result = self.emit(f"kvcache.threshold {unit} {name}, {self.cache[0]} at {batch_name} {{value = {value:.9e} : f32, "
                               f"first = {first} : i64, last = {last} : i64}} : {shape}, {t} -> !kvcache.selection<{unit}>")
            self.used.update({f"score {kind}", "threshold"})
            return result, (unit, chosen), name, scores
        k = first + last + int(self.rng.integers(1, 5))
        chosen = oracle.topk(unit, scores, self.cache[1], batch, k, first, last)
        result = self.emit(f"kvcache.topk {unit} {name}, {self.cache[0]} at {batch_name} {{k = {k} : i64, first = {first} "
                           f": i64, last = {last} : i64}} : {shape}, {t} -> !kvcache.selection<{unit}>")
        self.used.update({f"score {kind}", "topk"})
        return result, (unit, chosen), name, scores

    def score_region(self, heads):
        """Text of a region, captures (name, kind), and the function it computes."""
        kind = self.rng.choice(["none", "soft_cap", "alibi", "capture", "cut"])
        head = "^bb0(%s: f32, %e: index, %h: index, %qp: index, %kp: index"
        if kind == "none":
            return "", [], None
        self.used.add(f"score region {kind}")
        if kind == "soft_cap":
            return (f" score {{\n  {head}):\n  %t = kvcache.soft_cap %s, 4.0\n  kvcache.yield %t\n  }}", [],
                    lambda x, e, h, at, pos: 4.0 * np.tanh(x / 4.0))
        if kind == "alibi":
            return (f" score {{\n  {head}):\n  %t = kvcache.alibi %s, %h, %qp, %kp of {heads} heads\n  kvcache.yield %t\n  }}",
                    [], lambda x, e, h, at, pos: x - 2.0 ** (-8 * (h + 1) / heads) * (at - pos))
        if kind == "capture":
            factor = np.float32(self.rng.standard_normal())
            name = self.argument("f32", [np.array(factor)])
            body = ("  %i = arith.index_cast %e : index to i32\n  %f = arith.sitofp %i : i32 to f32\n"
                    "  %p = arith.mulf %s, %a : f32\n  %t = arith.addf %p, %f : f32\n")
            return (f" score {{\n  {head}, %a: f32):\n{body}  kvcache.yield %t\n  }}", [(name, "f32")],
                    lambda x, e, h, at, pos: x * np.float64(factor) + e)
        # Keys at even positions get -inf through the score: not masks, but without weight.
        body = ("  %two = arith.constant 2 : index\n  %zero = arith.constant 0 : index\n"
                "  %r = arith.remui %kp, %two : index\n  %even = arith.cmpi eq, %r, %zero : index\n"
                "  %low = arith.constant 0xFF800000 : f32\n  %t = arith.select %even, %low, %s : f32\n")
        return (f" score {{\n  {head}):\n{body}  kvcache.yield %t\n  }}", [],
                lambda x, e, h, at, pos: np.where(pos % 2 == 0, -np.inf, x))

    def attention(self, batch_name, batch):
        rng, t, n = self.rng, self.t, len(batch.positions)
        heads = t.heads * int(rng.choice([1, 2, 4]))
        q = self.normal(n, heads, t.dim)
        query = self.tensor(q)
        qkind, kinds = f"tensor<?x{heads}x{t.dim}xf32>", []
        scale = float(rng.choice([0.25, 0.5, 1.0]))
        attributes, options = [f"scale = {scale} : f32"], {"scale": scale}
        if rng.random() < 0.6:
            attributes.append("causal")
            options["causal"] = True
        if rng.random() < 0.4:
            options["window"] = min(int(rng.integers(1, 8)), t.window or 8)
            attributes.append(f"window = {options['window']} : i64")
            if rng.random() < 0.5:
                options["sinks"] = min(int(rng.integers(0, 4)), t.sinks if t.window else 4)
                attributes.append(f"sinks = {options['sinks']} : i64")
        text = f"kvcache.attention {query} over "
        segments = [self.cache] * int(rng.choice([1, 1, 1, 2]))
        text += ", ".join(c[0] for c in segments) + f" at {batch_name}"
        kinds = [qkind] + [str(t)] * len(segments) + ["!kvcache.batch"]
        if not self.wild and rng.random() < 0.3:
            name, chosen, _, _ = self.selection(batch_name, batch, query, q, heads)
            options["selections"] = [chosen] + [None] * (len(segments) - 1)
            text += f" select {name}"
            kinds.append(f"!kvcache.selection<{chosen[0]}>")
            attributes.append("selected_segments = array<i64: 0>")
        if not t.window and rng.random() < 0.2:
            columns = int(max(np.diff(batch.offsets), default=0))
            options["tree"] = (rng.random((n, columns)) < 0.6).astype(np.int8)
            text += f" tree {self.argument('tensor<?x?xi8>', [options['tree']])}"
            kinds.append("tensor<?x?xi8>")
            self.used.add("tree")
        if rng.random() < 0.2:
            options["sink_logits"] = rng.standard_normal(heads).astype(np.float32)
            text += f" sink_logits {self.argument(f'tensor<{heads}xf32>', [options['sink_logits']])}"
            kinds.append(f"tensor<{heads}xf32>")
            self.used.add("sink_logits")
        region, captures, options["score"] = self.score_region(heads)
        if captures:
            text += f" capture {', '.join(c[0] for c in captures)}"
            kinds += [c[1] for c in captures]
        returns = ["out", "lse"]
        outputs = [f"tensor<?x{heads}x{t.v_dim}xf32>", f"tensor<?x{heads}xf32>"]
        if len(segments) == 1 and not self.wild and rng.random() < 0.5:
            options["stat"] = str(rng.choice(["sum", "max", "count", "mean", "decay", "hits"]))
            options["stat_rows"] = int(rng.integers(0, 4))
            options["stat_stride"] = int(rng.choice([1, 1, 2]))
            attributes += [f"stat = #kvcache.stat<{options['stat']}>", f"stat_rows = {options['stat_rows']} : i64",
                           f"stat_stride = {options['stat_stride']} : i64"]
            if options["stat"] in ("decay", "hits"):
                name, options["number"] = {"decay": ("stat_decay", 0.75), "hits": ("stat_threshold", 0.109375)}[options["stat"]]
                attributes.append(f"{name} = {options['number']} : f32")
            returns.append("stats")
            outputs.append(f"tensor<?x{t.heads}x?xf32>")
            self.used.add(f"stat {options['stat']}")
        text += f" returns ({', '.join(returns)}) {{{', '.join(attributes)}}}{region}"
        names = self.emit(f"{text} : ({', '.join(kinds)}) -> ({', '.join(outputs)})", len(returns))
        got = oracle.attention(q, [c[1] for c in segments], batch, **options)
        for name, kind, value in zip(names, outputs, got):
            self.give(name, kind, value)
        if options.get("stat") and "score" in t.planes:
            self.fold(names[2], got[2], batch_name, batch)
        self.used.add("attention")
        if rng.random() < 0.3:
            self.online(q, query, heads, batch_name, batch)
        if rng.random() < 0.3:
            states = [(names[0], names[1], got[0], got[1])] * 2
            flat = ", ".join(f"{a}, {b}" for a, b, _, _ in states)
            merged = self.emit(f"kvcache.merge_states {flat} : {outputs[0]}, {outputs[1]}", 2)
            for name, kind, value in zip(merged, outputs, oracle.merge_states([(o, s) for _, _, o, s in states])):
                self.give(name, kind, value)
            self.used.add("merge_states")

    def online(self, q, query, heads, batch_name, batch):
        """Two spans one after the other, then divided, is attention; here the state is compared."""
        t, n = self.t, len(q)
        cut = int(self.rng.integers(0, 12))
        state = [np.zeros((n, heads, t.v_dim), np.float32), np.full((n, heads), -np.inf, np.float32),
                 np.zeros((n, heads), np.float32)]
        kinds = [f"tensor<?x{heads}x{t.v_dim}xf32>"] + [f"tensor<?x{heads}xf32>"] * 2
        names = [self.tensor(x) for x in state]
        for begin, end in ((0, cut), (cut, 1 << 20)):
            b, e = (self.argument("index", [np.array(x)]) for x in (begin, end))
            names = self.emit(f"kvcache.online_attention {query} over {self.cache[0]} span {b}, {e} at {batch_name} state "
                              f"{', '.join(names)} {{scale = 0.5 : f32, causal}} : (tensor<?x{heads}x{t.dim}xf32>, {t}, "
                              f"index, index, !kvcache.batch, {', '.join(kinds)}) -> ({', '.join(kinds)})", 3)
            state = oracle.online_attention(q, self.cache[1], begin, end, batch, state, 0.5, causal=True)
        for name, kind, value in zip(names, kinds, state):
            self.give(name, kind, value)
        self.used.add("online_attention")

    def fold(self, name, stats, batch_name, batch):
        update, decay = str(self.rng.choice(["add", "decay", "max", "replace"])), 0.75
        result = self.emit(f"kvcache.accumulate {update} {self.cache[0]}, {name} at {batch_name} {{decay = {decay} : f32}} : "
                           f"{self.t}, tensor<?x{self.t.heads}x?xf32>")
        self.set(result, oracle.accumulate(self.cache[1], update, stats, batch, decay), f"accumulate {update}")

    def accumulate(self):
        if "score" in self.t.planes:
            batch_name, batch = self.batch(rows=0)
            n = oracle.widest(self.cache[1], batch, "token")
            stats = self.rng.standard_normal((len(batch.sequences), self.t.heads, n)).astype(np.float32)
            name = self.argument(f"tensor<?x{self.t.heads}x?xf32>", [stats])
            self.fold(name, stats, batch_name, batch)

    def movable(self):
        t = self.t
        return t.stored and not t.window and t.seal_group == 1 and (t.per_head or t.heads == 1)

    def truncate(self):
        if not self.t.window:
            batch_name, batch = self.batch(rows=0)
            lengths = self.rng.integers(0, 20, len(batch.sequences)).astype(np.int32)
            name = self.emit(f"kvcache.truncate {self.cache[0]} to {self.tensor(lengths)} at {batch_name} : {self.t}, "
                             "tensor<?xi32>")
            self.set(name, oracle.truncate(self.cache[1], lengths, batch), "truncate")

    def seal(self):
        if self.t.has_tail:
            batch_name, batch = self.batch(rows=0)
            name = self.emit(f"kvcache.seal {self.cache[0]} at {batch_name} : {self.t}")
            self.set(name, oracle.seal(self.cache[1], batch), "seal")

    def fork(self):
        a, b = (int(x) for x in self.rng.integers(0, SEQUENCES, 2))
        names = [self.argument("index", [np.array(x)]) for x in (a, b)]
        name = self.emit(f"kvcache.fork {self.cache[0]} from {names[0]} to {names[1]} : {self.t}")
        self.set(name, oracle.fork(self.cache[1], a, b), "fork")
        self.clock[b] = self.clock[a]

    def requantize(self):
        t = self.t
        if not t.window:
            page = int(self.rng.choice([2, 4, 8]))
            k, v = random_format(self.rng, t.dim, page), random_format(self.rng, t.v_dim, page)
            residual = int(self.rng.choice([0, 3])) if k.integer or v.integer else 0
            to = replace(t, page=page, k=k, v=v, residual=residual, tail=str(self.rng.choice(["f16", "f32"])))
            batch_name, batch = self.batch(range(SEQUENCES), rows=0)
            name = self.emit(f"kvcache.requantize {self.cache[0]} at {batch_name} : {t} to {to}")
            self.set(name, oracle.requantize(self.cache[1], to, batch), "requantize")

    def import_dense(self):
        t = self.t
        if not t.window:
            batch_name, batch = self.batch(rows=0)
            layout, n, e = str(self.rng.choice(["nhd", "hnd"])), int(self.rng.integers(0, 12)), len(batch.sequences)
            nhd = layout == "nhd"
            k, v = (self.normal(*((e, n, t.heads, d) if nhd else (e, t.heads, n, d))) for d in (t.dim, t.v_dim))
            lengths = self.rng.integers(0, n, e, endpoint=True).astype(np.int32)
            kinds = [f"tensor<?x?x{t.heads}x{d}xf32>" if nhd else f"tensor<?x{t.heads}x?x{d}xf32>" for d in (t.dim, t.v_dim)]
            names = [self.argument(kind, [x]) for kind, x in zip(kinds, (k, v))]
            name = self.emit(f"kvcache.import {self.cache[0]}, {names[0]}, {names[1]}, {self.tensor(lengths)} at {batch_name} "
                             f"{{layout = #kvcache.dense_layout<{layout}>}} : {t}, {kinds[0]}, {kinds[1]}, tensor<?xi32>")
            self.set(name, oracle.import_dense(self.cache[1], k, v, lengths, batch, layout), "import")
            self.clock[batch.sequences] = lengths

    def evict(self):
        if self.movable():
            batch_name, batch = self.batch(rows=0)
            n = oracle.widest(self.cache[1], batch, "token")
            # Few different scores, so that ties are met.
            scores = self.rng.integers(0, 4, (len(batch.sequences), self.t.heads, n)).astype(np.float32)
            first, last = int(self.rng.integers(0, 2)), int(self.rng.integers(0, 3))
            budget = first + last + int(self.rng.integers(1, 6))
            kind = f"tensor<?x{self.t.heads}x?xf32>"
            name = self.emit(f"kvcache.evict {self.cache[0]} by {self.argument(kind, [scores])} at {batch_name} {{budget = "
                             f"{budget} : i64, first = {first} : i64, last = {last} : i64}} : {self.t}, {kind}")
            self.set(name, oracle.evict(self.cache[1], scores, batch, budget, first, last), "evict")

    def compact(self):
        if self.movable() and not self.wild:
            batch_name, batch = self.batch(rows=1)
            q = self.normal(len(batch.positions), self.t.heads, self.t.dim)
            kind = f"tensor<?x{self.t.heads}x?xf32>"
            scores = oracle.score("dot", q, self.cache[1], batch)
            name = self.emit(f"kvcache.score dot {self.tensor(q)}, {self.cache[0]} at {batch_name} : "
                             f"(tensor<?x{self.t.heads}x{self.t.dim}xf32>, {self.t}, !kvcache.batch) -> {kind}")
            k = int(self.rng.integers(1, 8))
            chosen = oracle.topk("token", scores, self.cache[1], batch, k, 0, 0)
            name = self.emit(f"kvcache.topk token {name}, {self.cache[0]} at {batch_name} {{k = {k} : i64, first = 0 : i64, "
                             f"last = 0 : i64}} : {kind}, {self.t} -> !kvcache.selection<token>")
            name = self.emit(f"kvcache.compact {self.cache[0]} keep {name} at {batch_name} : {self.t}, !kvcache.selection<token>")
            if self.t.per_head or self.t.heads == 1:
                self.set(name, oracle.compact(self.cache[1], chosen, batch), "compact")

    def merge_slots(self):
        # Keys in codes may be parallel, and then rounding would choose between partners.
        if self.movable() and not self.wild and not self.t.k.integer:
            batch_name, batch = self.batch(rows=0)
            n = oracle.widest(self.cache[1], batch, "token")
            shape, kind = (len(batch.sequences), self.t.heads, n), f"tensor<?x{self.t.heads}x?xf32>"
            scores, weights = self.normal(*shape), self.rng.uniform(0.5, 2, shape).astype(np.float32)
            k, least = int(self.rng.integers(1, 8)), float(self.rng.choice([-1, 0.125]))
            chosen = oracle.topk("token", scores, self.cache[1], batch, k, 0, 0)
            name = self.emit(f"kvcache.topk token {self.argument(kind, [scores])}, {self.cache[0]} at {batch_name} {{k = {k} : i64, "
                             f"first = 0 : i64, last = 0 : i64}} : {kind}, {self.t} -> !kvcache.selection<token>")
            name = self.emit(f"kvcache.merge_slots {self.cache[0]} keep {name} weighted {self.argument(kind, [weights])} at {batch_name} "
                             f"{{min_similarity = {least} : f32}} : {self.t}, !kvcache.selection<token>, {kind}")
            self.set(name, oracle.merge_slots(self.cache[1], chosen, weights, batch, least), "merge_slots")

    def rebase(self):
        t = self.t
        if t.stored and not t.window and t.seal_group == 1 and not t.rope:
            rope = random_rope(self.rng, t.dim)
            batch_name, batch = self.batch(rows=0)
            name = self.emit(f'"kvcache.rebase"({self.cache[0]}, {batch_name}) <{{rope = {rope}}}> : ({t}, !kvcache.batch) -> {t}')
            self.set(name, oracle.rebase(self.cache[1], batch, rope), "rebase")

    def final(self):
        """Everything that is stored, of all sequences."""
        t = self.t
        batch_name, batch = self.batch(range(SEQUENCES), rows=1)
        for plane, dim in (("k", t.dim), ("v", t.v_dim)):
            layout = str(self.rng.choice(["nhd", "hnd"]))
            kind = f"tensor<?x?x{t.heads}x{dim}xf32>" if layout == "nhd" else f"tensor<?x{t.heads}x?x{dim}xf32>"
            name = self.emit(f"kvcache.export {plane} {self.cache[0]} at {batch_name} {{layout = #kvcache.dense_layout<{layout}>}}"
                             f" : {t} -> {kind}")
            self.give(name, kind, oracle.export(plane, self.cache[1], batch, layout), exact=plane == "v")
        q = self.rng.standard_normal((SEQUENCES, t.heads, t.dim)).astype(np.float32)
        query, shape = self.tensor(q), f"tensor<?x{t.heads}x?xf32>"
        for plane, kind in (("minmax", "bound"), ("score", "plane"), ("norm", "key_norm")):
            if not (kind == "bound" and t.rope) and plane in t.planes and not self.wild:
                operand = f"{query}, " if kind == "bound" else ""
                first = f"tensor<?x{t.heads}x{t.dim}xf32>, " if kind == "bound" else ""
                name = self.emit(f'"kvcache.score"({operand}{self.cache[0]}, {batch_name}) <{{kind = #kvcache<score_kind {kind}>}}>'
                                 f" : ({first}{t}, !kvcache.batch) -> {shape}")
                self.give(name, shape, oracle.score(kind, q, self.cache[1], batch))

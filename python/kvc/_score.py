# Score functions of attention, traced into the text of a score region.
"""A score function is called once with expressions in place of numbers; each operation on them becomes one operation of the
region. Scores are f32; the batch entry, the head and the positions are whole numbers, which turn into f32 where they meet one.
Comparisons give conditions for `where`."""
import math
import struct

from ._kvc import Error


class Expression:
    """A value of a score region. kind: "f32", "index" (whole numbers) or "i1" (conditions)."""

    __slots__ = ("trace", "name", "kind")
    # NumPy's numbers leave operators with an expression to it.
    __array_ufunc__ = None

    def __init__(self, trace, name, kind):
        self.trace, self.name, self.kind = trace, name, kind

    def __add__(self, other): return _arithmetic("add", self, other)
    def __radd__(self, other): return _arithmetic("add", other, self)
    def __sub__(self, other): return _arithmetic("sub", self, other)
    def __rsub__(self, other): return _arithmetic("sub", other, self)
    def __mul__(self, other): return _arithmetic("mul", self, other)
    def __rmul__(self, other): return _arithmetic("mul", other, self)
    def __truediv__(self, other): return _divide(self, other)
    def __rtruediv__(self, other): return _divide(other, self)
    def __neg__(self): return self.trace.emit("arith.negf", self, kind="f32") if self.kind == "f32" else 0 - self
    def __pos__(self): return self
    def __abs__(self): return absolute(self)
    def __lt__(self, other): return _compare("lt", self, other)
    def __le__(self, other): return _compare("le", self, other)
    def __gt__(self, other): return _compare("gt", self, other)
    def __ge__(self, other): return _compare("ge", self, other)
    def __eq__(self, other): return _compare("eq", self, other)
    def __ne__(self, other): return _compare("ne", self, other)
    def __and__(self, other): return _logic("arith.andi", self, other)
    def __or__(self, other): return _logic("arith.ori", self, other)
    __rand__, __ror__ = __and__, __or__
    def __invert__(self): return _logic("arith.xori", self, True)
    __hash__ = None

    def __bool__(self):
        raise Error("expects no `if`, `and`, `or`, `not`, min or max on a value that is known only when attention runs: use "
                    "kvc.where, &, |, ~, kvc.minimum, kvc.maximum")

    def __float__(self):
        raise Error("expects functions of kvc (kvc.exp, kvc.tanh, ...) on a value of a score function, but got another one")

    __int__ = __index__ = __float__


class Trace:
    """Collects the operations of one region; equal ones stand once."""

    def __init__(self):
        self.lines = []
        self.known = {}

    def line(self, text, kind):
        if text not in self.known:
            self.known[text] = Expression(self, f"%{len(self.lines)}", kind)
            self.lines.append(f"%{len(self.lines)} = {text}")
        return self.known[text]

    def emit(self, op, *operands, kind, type=None, attributes=""):
        names = ", ".join(operand.name for operand in operands)
        return self.line(f"{op} {attributes}{names} : {type or operands[-1].kind}", kind)

    def constant(self, value, kind):
        if kind == "f32":
            return self.line(f"arith.constant {f32_text(value)} : f32", kind)
        return self.line(f"arith.constant {str(value).lower() if kind == 'i1' else value} : {kind}".removesuffix(
            " : i1"), kind)

    def lift(self, value):
        """An expression for a number."""
        if isinstance(value, Expression):
            if value.trace is not self:
                raise Error("expects values of one score function, but got one of another")
            return value
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()
        if isinstance(value, bool):
            return self.constant(value, "i1")
        if isinstance(value, int):
            if not -2**31 <= value < 2**31:
                raise Error(f"expects whole numbers that fit i32 in a score function, but got {value}")
            return self.constant(value, "index")
        if isinstance(value, float):
            return self.constant(value, "f32")
        raise TypeError(f"expects numbers in a score function, but got {type(value).__name__}")

    def real(self, value):
        """The same as f32."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.constant(float(value), "f32")
        value = self.lift(value)
        if value.kind == "index":
            word = self.line(f"arith.index_cast {value.name} : index to i32", "i32")
            return self.line(f"arith.sitofp {word.name} : i32 to f32", "f32")
        if value.kind != "f32":
            raise Error("expects a number, but got a condition: choose between two numbers with kvc.where")
        return value


def f32_text(value):
    """An f32 literal: bits, where MLIR has no number for it."""
    try:
        bits, = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        raise Error(f"expects numbers that fit f32, but got {value}") from None
    number, = struct.unpack("<f", struct.pack("<f", value))
    return f"0x{bits:08X}" if not math.isfinite(number) else f"{number:.9e}"


def _trace_of(*values):
    for value in values:
        if isinstance(value, Expression):
            return value.trace
    return None


def _pair(a, b):
    trace = _trace_of(a, b)
    x, y = trace.lift(a), trace.lift(b)
    if "i1" in (x.kind, y.kind):
        raise Error("expects numbers, but got a condition: choose between two numbers with kvc.where")
    if x.kind == y.kind:
        return trace, x, y
    return trace, trace.real(a), trace.real(b)


def _arithmetic(name, a, b):
    trace, x, y = _pair(a, b)
    return trace.emit(f"arith.{name}{'f' if x.kind == 'f32' else 'i'}", x, y, kind=x.kind)


def _divide(a, b):
    trace = _trace_of(a, b)
    return trace.emit("arith.divf", trace.real(a), trace.real(b), kind="f32")


def _compare(name, a, b):
    trace, x, y = _pair(a, b)
    if x.kind == "f32":
        return trace.emit("arith.cmpf", x, y, kind="i1", attributes=f"{'u' if name == 'ne' else 'o'}{name}, ")
    return trace.emit("arith.cmpi", x, y, kind="i1",
                      attributes=f"{name if name in ('eq', 'ne') else 's' + name}, ")


def _logic(op, a, b):
    trace = _trace_of(a, b)
    x, y = trace.lift(a), trace.lift(b)
    if (x.kind, y.kind) != ("i1", "i1"):
        raise Error("expects conditions, but got a number")
    return trace.emit(op, x, y, kind="i1")


def _unary(op, plain):
    def function(x):
        trace = _trace_of(x)
        return trace.emit(op, trace.real(x), kind="f32") if trace else plain(x)
    return function


exp = _unary("math.exp", math.exp)
log = _unary("math.log", math.log)
sqrt = _unary("math.sqrt", math.sqrt)
tanh = _unary("math.tanh", math.tanh)
absolute = _unary("math.absf", abs)


def _extreme(name, plain):
    def function(a, b):
        if _trace_of(a, b) is None:
            return plain(a, b)
        trace, x, y = _pair(a, b)
        op = f"arith.{name}imumf" if x.kind == "f32" else f"arith.{name}si"
        return trace.emit(op, x, y, kind=x.kind)
    return function


minimum = _extreme("min", min)
maximum = _extreme("max", max)
for _name in ("exp", "log", "sqrt", "tanh", "absolute", "minimum", "maximum"):
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
    globals()[_name].__doc__ = f"{_name} of numbers and of values of a score function."


def where(condition, a, b):
    """a where the condition holds, else b."""
    trace = _trace_of(condition, a, b)
    if trace is None:
        return a if condition else b
    condition = trace.lift(condition)
    if condition.kind != "i1":
        raise Error("expects a condition for kvc.where, but got a number")
    trace, x, y = _pair(*(v if isinstance(v, Expression) else trace.lift(v) for v in (a, b)))
    return trace.emit("arith.select", condition, x, y, kind=x.kind)


def soft_cap(score, cap):
    """cap * tanh(score / cap), for a score and a positive number."""
    trace = _trace_of(score)
    if trace is None:
        return cap * math.tanh(score / cap)
    if isinstance(cap, Expression):
        raise Error("expects a number for the cap of kvc.soft_cap, but got a value of the score function")
    return trace.line(f"kvcache.soft_cap {trace.real(score).name}, {f32_text(cap)}", "f32")


def alibi(score, head, query_position, key_position, heads):
    """score - 2^(-8 (head + 1) / heads) * (query_position - key_position), in a score function."""
    trace = _trace_of(score, head, query_position, key_position)
    if trace is None:
        return score - 2.0 ** (-8 * (head + 1) / heads) * (query_position - key_position)
    numbers = [trace.lift(value) for value in (head, query_position, key_position)]
    if any(number.kind != "index" for number in numbers):
        raise Error("expects whole numbers for the head and the positions of kvc.alibi")
    names = ", ".join(number.name for number in numbers)
    return trace.line(f"kvcache.alibi {trace.real(score).name}, {names} of {int(heads)} heads", "f32")


def region(function):
    """The text of the score region of a function (score, batch entry, query head, query position, key position)."""
    trace = Trace()
    arguments = (("%s", "f32"), ("%e", "index"), ("%h", "index"), ("%qp", "index"), ("%kp", "index"))
    result = trace.real(function(*(Expression(trace, *argument) for argument in arguments)))
    lines = [f"^bb0({', '.join(f'{name}: {kind}' for name, kind in arguments)}):",
             *(f"  {line}" for line in trace.lines), f"  kvcache.yield {result.name}"]
    return "score {\n" + "\n".join(f"    {line}" for line in lines) + "\n  }"

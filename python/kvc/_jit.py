# Modules as text, compiled once and called with NumPy arrays.
import hashlib
import os
import tempfile
import threading
from pathlib import Path

import numpy as np

from . import _kvc
from ._kvc import Error

_lock = threading.Lock()
_device = None


def device():
    """The device that everything of this process runs on. KVC_THREADS: threads of it (default: one per CPU)."""
    global _device
    with _lock:
        if _device is None:
            text = os.environ.get("KVC_THREADS", "0")
            if not text.isdecimal():
                raise ValueError(f"expects a number of threads in KVC_THREADS, but got {text!r}")
            _device = _kvc.Device("cpu", int(text))
        return _device


def _write(path, data):
    """Writes a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _keep(source, text):
    """A note on how a failure of the compiler comes back: the module is left in a file."""
    target = _kvc.host_target()
    option = f" --target={target}" if target else ""
    try:
        _write(source, text.encode())
    except OSError as reason:
        return f"the module could not be kept for a command that reproduces this: {reason}"
    return f"to reproduce: kvc-compile {source}{option} -o {source.with_suffix('.kvca')}"


def load(text):
    """The module of a text, out of the compiler's folder of artifacts where it is there."""
    if not isinstance(text, str):
        raise TypeError(f"expects the text of a module, but got {type(text).__name__}")
    try:
        artifact = _kvc.compile(text, "<module>", _kvc.host_target())
    except Error as error:
        folder = Path(_kvc.cache_folder() or tempfile.gettempdir())
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        raise Error(f"{error}\n{_keep(folder / 'failed' / f'{name}.mlir', text)}") from None
    return _kvc.Module(device(), artifact)


def _to_bf16(array):
    """The bits of f32 numbers rounded to bf16, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(array), quiet, rounded)


def _from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _to_array(value, port, what):
    array = np.asarray(value)
    wanted = np.dtype(port["numpy"])
    is_float = port["dtype"] in ("f16", "bf16", "f32", "f64")
    if (array.dtype.kind == "f") != is_float or array.dtype.kind not in "fiub":
        raise TypeError(f"expects {what} of {port['dtype']}, but got {array.dtype}")
    if port["dtype"] == "bf16":
        return np.ascontiguousarray(_to_bf16(array.astype(np.float32)))
    if not is_float and array.dtype != wanted and array.size:
        limits = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
        if array.min() < limits[0] or array.max() > limits[1]:
            raise ValueError(f"expects elements of {what} of {limits[0]} to {limits[1]}, but got {array.min()} to "
                             f"{array.max()}")
    # np.ascontiguousarray would make a vector of a scalar.
    return np.asarray(array, wanted, order="C")


def _to_runtime(value, port, index):
    from ._cache import Batch, Cache

    what, kind = f"argument {index}", port["kind"]
    if kind == "tensor":
        return _to_array(value, port, what)
    if kind == "cache":
        if not isinstance(value, Cache):
            raise TypeError(f"expects a kvc.Cache for {what}, but got {type(value).__name__}")
        return value.handle
    if kind == "batch":
        return Batch.of(value).handle
    array = np.asarray(value)
    if array.size != 1 or (array.dtype.kind == "f") != (kind == "real") or array.dtype.kind not in "fiub":
        raise TypeError(f"expects one number of {port['dtype']} for {what}, but got {value!r}")
    return array.reshape(()).item()


class Function:
    """A function of a compiled module. Called with one argument for each of the function's: NumPy arrays or numbers; a
    `kvc.Cache` for a cache, which is updated in place; a `kvc.Batch` or (query_offsets, sequences, positions) for a
    batch. Returns None, the result, or a tuple of the results: read-only arrays (bf16 comes as f32), numbers, caches."""

    def __init__(self, module, name):
        if name not in module.functions():
            raise Error(f"expects a function among {', '.join(module.functions())}, but got {name!r}")
        self.name = name
        self._module = module
        self._arguments = module.arguments(name)
        self._results = module.results(name)

    def __repr__(self):
        types = (", ".join(port["type"] for port in ports) for ports in (self._arguments, self._results))
        return "<kvc function @{}({}) -> ({})>".format(self.name, *types)

    def __call__(self, *arguments):
        if len(arguments) != len(self._arguments):
            raise TypeError(f"@{self.name} expects {len(self._arguments)} arguments, but got {len(arguments)}")
        given = [_to_runtime(*each) for each in zip(arguments, self._arguments, range(len(arguments)))]
        results = self._module.call(self.name, given)
        results = tuple(self._from_runtime(*each) for each in zip(results, self._results))
        return None if not results else results[0] if len(results) == 1 else results

    @staticmethod
    def _from_runtime(value, port):
        from ._cache import Cache

        if port["kind"] == "cache":
            return Cache.of_handle(value, port["type"])
        return _from_bf16(value) if port["dtype"] == "bf16" else value

    def bind_weights(self, path):
        """Binds the module's weights to the tensors of a GGUF file."""
        self._module.bind_weights(os.fspath(path))
        return self


def jit(mlir_text, function):
    """Compiles a module and returns its function of that name, a `Function`. Artifacts are kept on disk, in
    ${XDG_CACHE_HOME:-~/.cache}/kvc. Raises `kvc.Error` with the compiler's diagnostics."""
    return Function(load(mlir_text), function)

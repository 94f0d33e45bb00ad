# kvc for Python: compiled attention over key/value caches, on NumPy arrays.
"""Write a module over the `kvcache` dialect as text and call it (`jit`), or use caches, attention and models directly.

Errors of the compiler and of the runtime are `kvc.Error`; arguments of a wrong type are `TypeError` or `ValueError`.
"""

from ._attention import attention
from ._cache import Batch, Cache, CacheSpec
from ._jit import Function, jit
from ._kvc import Error, __version__
from ._model import Generation, Model
from ._score import absolute, alibi, exp, log, maximum, minimum, soft_cap, sqrt, tanh, where

__all__ = [
    "Batch", "Cache", "CacheSpec", "Error", "Function", "Generation", "Model", "__version__", "absolute", "alibi",
    "attention", "exp", "jit", "log", "maximum", "minimum", "soft_cap", "sqrt", "tanh", "where",
]

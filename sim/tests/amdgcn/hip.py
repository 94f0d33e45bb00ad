# The simulated HIP runtime by ctypes, and code objects by clang.
"""What the checks of the AMDGCN simulator share."""
import ctypes
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
# Where what assembles and breaks code is, and what is for both simulators.
sys.path[:0] = [str(ROOT / "test/differential"), str(HERE.parent)]
CHIPS = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
CLANG = "/usr/lib/llvm-22/bin/clang"
HIP_OPTIONS = ["-x", "hip", "-nogpulib", "-nogpuinc", "--cuda-device-only", "-O2", "-std=c++20"]


def compile_hip(source, chip, folder):
    """A HIP source as a code object."""
    output = Path(folder) / f"{Path(source).stem}-{chip}.hsaco"
    subprocess.run([CLANG, *HIP_OPTIONS, f"--offload-arch={chip}", "--no-gpu-bundle-output", str(source), "-o", str(output)],
                   check=True)
    return output


class Runtime:
    """The few functions of the HIP API that the checks need."""

    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.call("hipInit", 0)
        self.options({"log": "off"})

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            last = self.library.kvcsim_last_error
            last.restype = ctypes.c_char_p
            raise RuntimeError(f"{name}: {result}: {last().decode()}")

    def options(self, options):
        for name, value in options.items():
            if self.library.kvcsim_set_option(name.encode(), value.encode()):
                raise RuntimeError(f"expects the option {name} = {value}")

    def use(self, chip):
        self.call("hipSetDevice", self.library.kvcsim_device(chip.encode()))

    def reset(self):
        """Calls after a kernel that failed fail too, until the device is reset."""
        self.library.hipDeviceReset()

    def load(self, path):
        module = ctypes.c_void_p()
        data = Path(path).read_bytes()
        self.call("hipModuleLoadData", ctypes.byref(module), ctypes.c_char_p(data))
        return module

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def upload(self, array):
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(max(array.nbytes, 1)))
        self.call("hipMemcpyHtoD", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer, array):
        self.call("hipMemcpyDtoH", array.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(array.nbytes))
        return array

    def launch(self, function, grid, block, arguments, lds=0):
        """Pointers and numbers of ctypes as arguments."""
        pointers = (ctypes.c_void_p * max(len(arguments), 1))()
        for i, argument in enumerate(arguments):
            pointers[i] = ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p)
        grid, block = (tuple(grid) + (1, 1))[:3], (tuple(block) + (1, 1))[:3]
        self.call("hipModuleLaunchKernel", function, *grid, *block, lds, None, pointers, None)
        self.call("hipDeviceSynchronize")


SCHEDULES = {"in turn": {"seed": "0", "order": "forward"}, "random waves": {"seed": "7", "order": "forward"},
             "reverse": {"seed": "0", "order": "reverse"}}
CASES = {}


@dataclass
class Case:
    """The function checks a Run; `source` is the HIP file beside its module."""

    check: object
    chips: tuple
    source: str


def case(*chips):
    """A function of a Run for these chips (all, when none is named)."""
    def register(function):
        CASES[function.__name__] = Case(function, chips or tuple(CHIPS), function.__module__)
        return function
    return register


class Run:
    """One case on one chip: launches a kernel for each schedule, and compares."""

    def __init__(self, runtime, module, chip):
        self.runtime, self.module, self.chip, self.wave = runtime, module, chip, CHIPS[chip]
        self.random = np.random.default_rng(11)

    def __call__(self, kernel, grid, block, inputs, outputs, *numbers, lds=0):
        """Gives the outputs, arrays like `outputs`; numbers are 32-bit integers behind the pointers; bytes of dynamic LDS."""
        function = self.runtime.function(self.module, kernel)
        first = None
        for name, options in SCHEDULES.items():
            self.runtime.options(options)
            pointers = [self.runtime.upload(np.ascontiguousarray(a)) for a in (*inputs, *outputs)]
            self.runtime.launch(function, grid, block, [*pointers, *(ctypes.c_int(n) for n in numbers)], lds)
            results = [self.runtime.download(p, np.empty_like(a)) for p, a in zip(pointers[len(inputs):], outputs)]
            for pointer in pointers:
                self.runtime.call("hipFree", pointer)
            if first is not None and any(a.tobytes() != b.tobytes() for a, b in zip(first, results)):
                raise AssertionError(f"{name}: expects the same bits for every order")
            first = results
        return first

    def normals(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def integers(self, count, low=-2**31, high=2**31 - 1, dtype=np.int32):
        return self.random.integers(low, high, count).astype(dtype)


def close(got, want, relative=0.0, absolute=0.0):
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=relative, atol=absolute)


def same(got, want):
    np.testing.assert_array_equal(got, want)

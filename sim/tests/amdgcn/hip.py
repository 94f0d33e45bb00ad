# The simulated HIP runtime by ctypes, and code objects by clang.
"""What the checks of the AMDGCN simulator share."""
import ctypes
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
CHIPS = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
CLANG = "/usr/lib/llvm-22/bin/clang"


def compile_hip(source, chip, folder):
    """A HIP source as a code object."""
    output = Path(folder) / f"{Path(source).stem}-{chip}.hsaco"
    subprocess.run([CLANG, "-x", "hip", f"--offload-arch={chip}", "-nogpulib", "-nogpuinc", "--cuda-device-only",
                    "--no-gpu-bundle-output", "-O2", "-std=c++20", str(source), "-o", str(output)], check=True)
    return output


def assemble(text, chip, folder, name):
    """Assembler text as a code object."""
    source, output = Path(folder) / f"{name}-{chip}.s", Path(folder) / f"{name}-{chip}.hsaco"
    source.write_text(text)
    subprocess.run([CLANG, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={chip}", str(source), "-o",
                    str(output)], check=True)
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

# Compiles kernels of Triton for the targets of the simulators, without a GPU.
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# What Triton calls a target, and its lanes; PTX 8.6 is what a released ptxas takes.
TARGETS = {"sm_80": GPUTarget("cuda", 80, 32), "sm_90a": GPUTarget("cuda", 90, 32),
           "gfx942": GPUTarget("hip", "gfx942", 64), "gfx950": GPUTarget("hip", "gfx950", 64),
           "gfx90a": GPUTarget("hip", "gfx90a", 64), "gfx1100": GPUTarget("hip", "gfx1100", 32),
           "gfx1201": GPUTarget("hip", "gfx1201", 32)}


def compile_kernel(kernel, types, constants, target, stages, folder, warps=4):
    """The file of the kernel and the bytes of shared memory."""
    signature = {**types, **{name: "constexpr" for name in constants}}
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(types.values()) if kind[0] == "*" or kind == "i32"}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    chip, nvidia = TARGETS[target], target.startswith("sm")
    options = {"num_warps": warps, "num_stages": stages, **({"ptx_version": 86} if nvidia else {})}
    built = triton.compile(source, target=chip, options=options)
    path = Path(folder) / f"{kernel.fn.__name__}_{target}.{'ptx' if nvidia else 'hsaco'}"
    code = built.asm["ptx" if nvidia else "hsaco"]
    path.write_bytes(code.encode() if nvidia else code)
    return path, built.metadata.shared

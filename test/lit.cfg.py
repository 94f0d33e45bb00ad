# Configuration of the lit suites: substitutions, and features found by looking.
import os
import platform
import shutil

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

source = os.path.join(config.kvc_source_root, "test")
binary = os.path.join(config.kvc_binary_root, "test")
integration = config.kvc_suite == "kvc-integration"

config.name = config.kvc_suite
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit"] + ([] if integration else ["Integration"])
config.test_source_root = os.path.join(source, "Integration") if integration else source
config.test_exec_root = os.path.join(binary, "Integration") if integration else binary

# Pattern variables of one CHECK-LABEL block do not leak into the next.
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=annotation-full"
for name in ("KVC_LONG_TESTS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# Tools. A test may REQUIRE a tool by its name; one that is not built is no feature.
llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
built = [tool for tool in config.kvc_tools if os.path.exists(os.path.join(config.kvc_tools_dir, tool))]
llvm_config.add_tool_substitutions([ToolSubst(tool) for tool in built] + ["mlir-opt", "mlir-translate"],
                                   [config.kvc_tools_dir, config.llvm_tools_dir])
config.available_features.update(built)

config.substitutions.append(("%inputs", os.path.join(source, "Inputs")))
config.substitutions.append(("%llvm_include", config.llvm_include_dir))
config.substitutions.append(("%utils", os.path.join(config.kvc_source_root, "utils")))
config.substitutions.append(("%build", config.kvc_binary_root))
config.substitutions.append(("%methods", os.path.join(config.kvc_source_root, "methods")))
python = os.path.join(config.kvc_source_root, ".venv", "bin", "python")
if os.path.exists(python):
    config.available_features.add("numpy")
    # Before the %python of lit itself.
    config.substitutions.insert(0, ("%python", python))

# Models that utils/setup fetched.
smollm2 = os.path.join(config.kvc_source_root, ".cache", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
if os.path.exists(smollm2):
    config.available_features.add("smollm2")
    config.substitutions.append(("%smollm2", smollm2))

# The machine: instruction sets (names as in /proc/cpuinfo), tools of other targets.
config.available_features.add("host-" + platform.machine())
with open("/proc/cpuinfo") as info:
    flags = next((line.split(":", 1)[1].split() for line in info if line.startswith("flags")), [])
config.available_features.update(f for f in flags if f.startswith(("avx", "amx", "fma", "f16c")))
# The simulated driver lies beside the runtime.
for library in ("kvcsim_cuda", "kvcsim_hip"):
    if os.path.exists(os.path.join(config.kvc_binary_root, "lib", f"lib{library}.so")):
        config.available_features.add(library)
for tool in ("ptxas", "qemu-aarch64"):
    if shutil.which(tool):
        config.available_features.add(tool)
if os.environ.get("KVC_LONG_TESTS"):
    config.available_features.add("long-tests")

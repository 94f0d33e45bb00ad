//===- Module.cpp - Modules and launches of the HIP interface -------------===//
#include "amdgcn/Report.h"
#include "hip/Runtime.h"

#include <fstream>
#include <nlohmann/json.hpp>

using namespace kvc::sim;
using namespace kvc::sim::hip;

// Modules -------------------------------------------------------------------------------------------------------------

static Result load(Device &device, Module **module, const std::string &name, const std::vector<uint8_t> &bytes) {
  auto handle = std::make_unique<Module>();
  handle->device = &device;
  try {
    handle->loaded = std::make_unique<amdgcn::LoadedModule>(device.memory, name, bytes, *device.chip);
  } catch (const Fault &fault) {
    const bool other = fault.kind == FaultKind::Unsupported;
    return error(other ? NoBinaryForGpu : InvalidImage, fault.what());
  }
  *module = addTo(device.modules, std::move(handle));
  return Success;
}

/// The bytes of an image of which only the start is known: an ELF file says where its section headers end, a bundle
/// where its entries do.
static uint64_t sizeOfImage(const uint8_t *image) {
  auto word = [&](size_t at, unsigned bytes) {
    uint64_t value = 0;
    std::memcpy(&value, image + at, bytes);
    return value;
  };
  if (std::memcmp(image,
                  "\x7f"
                  "ELF\x02\x01",
                  6) == 0) {
    const uint64_t sections = word(40, 8) + word(58, 2) * word(60, 2),
                   programs = word(32, 8) + word(54, 2) * word(56, 2);
    return std::max(sections, programs);
  }
  constexpr std::string_view magic = "__CLANG_OFFLOAD_BUNDLE__";
  if (std::memcmp(image, magic.data(), magic.size()) != 0) {
    return 0;
  }
  uint64_t end = 0;
  size_t at = magic.size() + 8;
  for (uint64_t count = word(magic.size(), 8), i = 0; i < count; ++i) {
    end = std::max(end, word(at, 8) + word(at + 8, 8));
    at += 24 + word(at + 16, 8);
  }
  return std::max<uint64_t>(end, at);
}

KVCSIM_API hipModuleLoadData(Module **module, const void *image) {
  return withoutCapture("load of a module", [&](Device &device) -> Result {
    if (!module || !image) {
      return error(InvalidValue, "expects an image");
    }
    const auto *bytes = static_cast<const uint8_t *>(image);
    const uint64_t size = sizeOfImage(bytes);
    if (size == 0) {
      return error(InvalidImage, "expects a code object (an ELF file) or a bundle of them");
    }
    return load(device, module, "module", std::vector<uint8_t>(bytes, bytes + size));
  });
}

/// Options are for the compiler of the real runtime.
KVCSIM_API hipModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) {
  return hipModuleLoadData(module, image);
}

KVCSIM_API hipModuleLoad(Module **module, const char *path) {
  return withoutCapture("load of a module", [&](Device &device) -> Result {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      return error(FileNotFound, fmt::format("expects a readable file, but got {}", path));
    }
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return load(device, module, path, std::vector<uint8_t>(text.begin(), text.end()));
  });
}

KVCSIM_API hipModuleUnload(Module *module) {
  return withoutCapture("unload of a module", [&](Device &device) -> Result {
    return removeFrom(device.modules, module) ? Success : error(InvalidHandle, "expects a module of this device");
  });
}

KVCSIM_API hipModuleGetFunction(Function **function, Module *module, const char *name) {
  return withDevice([&](Device &device) -> Result {
    if (!isIn(device.modules, module)) {
      return error(InvalidHandle, "expects a module of this device");
    }
    if (!module->loaded->object().kernels.count(name)) {
      return error(NotFound, fmt::format("expects a kernel of the module, but got {}", name));
    }
    auto &handle = module->functions[name];
    if (!handle) {
      handle = std::make_unique<Function>();
      handle->module = module;
      handle->program = &module->loaded->kernel(name);
    }
    *function = handle.get();
    return Success;
  });
}

KVCSIM_API hipModuleGetGlobal(void **pointer, size_t *bytes, Module *module, const char *name) {
  return withDevice([&](Device &device) -> Result {
    if (!isIn(device.modules, module)) {
      return error(InvalidHandle, "expects a module of this device");
    }
    uint64_t address = 0, size = 0;
    if (!module->loaded->variable(name, address, size)) {
      return error(NotFound, fmt::format("expects a variable of the module, but got {}", name));
    }
    if (pointer) {
      *pointer = reinterpret_cast<void *>(address);
    }
    if (bytes) {
      *bytes = size;
    }
    return Success;
  });
}

// Functions -----------------------------------------------------------------------------------------------------------

template <typename F> static int withFunction(const Function *function, F f) {
  return withDevice([&](Device &device) -> int {
    for (const auto &module : device.modules) {
      for (const auto &[name, handle] : module->functions) {
        if (handle.get() == function) {
          return f(device);
        }
      }
    }
    return error(InvalidHandle, "expects a function of this device");
  });
}

KVCSIM_API hipFuncGetAttribute(int *value, int attribute, Function *function) {
  return withFunction(function, [&](Device &device) -> Result {
    const amdgcn::KernelInfo &kernel = *function->program->kernel;
    switch (attribute) {
    case FunctionMaxThreads:
      *value = int(kernel.maxThreads);
      return Success;
    case FunctionSharedBytes:
      *value = int(kernel.ldsBytes);
      return Success;
    case FunctionConstBytes:
      *value = 0;
      return Success;
    case FunctionLocalBytes:
      *value = int(kernel.privateBytes);
      return Success;
    case FunctionRegisters:
      *value = int(kernel.vgprs);
      return Success;
    case FunctionMaxDynamicShared:
      *value = int(device.chip->ldsBytes - kernel.ldsBytes);
      return Success;
    default:
      return error(InvalidValue,
                   fmt::format("expects a function attribute that the simulator has, but got {}", attribute));
    }
  });
}

/// All of LDS can be used without asking for it.
KVCSIM_API hipFuncSetAttribute(const void *function, int attribute, int value) {
  return withFunction(static_cast<const Function *>(function), [](Device &) { return Success; });
}

/// Waves of a work-group, and how many of its work-groups fit into a compute unit by waves, registers and LDS.
static int occupancy(const amdgcn::Chip &chip, const amdgcn::KernelInfo &kernel, unsigned block, size_t dynamicLds) {
  const unsigned waves = (block + kernel.waveSize - 1) / kernel.waveSize;
  const unsigned granule = chip.vgprGranule, wanted = std::max(kernel.vgprs, 1u);
  const unsigned rounded = (wanted + granule - 1) / granule * granule;
  const unsigned perSimd = std::min(chip.wavesPerSimd, chip.vgprs / rounded);
  const unsigned byWaves = perSimd * chip.simdsPerUnit / waves;
  const size_t lds = kernel.ldsBytes + dynamicLds;
  return int(lds == 0 ? byWaves : std::min<size_t>(byWaves, chip.ldsBytes / lds));
}

KVCSIM_API hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *function, int block,
                                                              size_t dynamicLds) {
  return withFunction(function, [&](Device &device) -> Result {
    if (block <= 0 || block > 1024) {
      return error(InvalidValue, fmt::format("expects a block of 1 to 1024 threads, but got {}", block));
    }
    *blocks = occupancy(*device.chip, *function->program->kernel, unsigned(block), dynamicLds);
    return Success;
  });
}

// Launches ------------------------------------------------------------------------------------------------------------

static void run(Device &device, const amdgcn::Program &program, const LaunchConfig &config) {
  Runtime &state = runtime();
  LaunchOptions options = state.launch;
  options.smCount = device.chip->computeUnits;
  try {
    const LaunchResult result = runKernel(program, config, device.memory, options);
    state.warn(result.warnings);
    if (state.wantsReports()) {
      state.report(reportJson(program, result, state.instructions).dump());
    }
  } catch (const Fault &fault) {
    // The calls after the launch tell.
    device.failed = error(resultOf(fault), fault.what());
    if (device.failed == InvalidValue) {
      device.failed = LaunchFailed;
    }
    state.logError(fault.what());
  }
}

KVCSIM_API hipModuleLaunchKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                                 unsigned blockY, unsigned blockZ, unsigned ldsBytes, Stream *stream, void **parameters,
                                 void **extra) {
  return withFunction(function, [&](Device &device) -> int {
    const amdgcn::Program &program = *function->program;
    const auto arguments = program.kernel->explicitArguments();
    LaunchConfig config;
    config.grid = {gridX, gridY, gridZ};
    config.block = {blockX, blockY, blockZ};
    config.dynamicShared = ldsBytes;
    uint32_t bytes = 0;
    for (const auto *argument : arguments) {
      bytes = std::max(bytes, argument->offset + argument->bytes);
    }
    config.parameters.assign(bytes, 0);
    if (parameters) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (!parameters[i]) {
          return error(InvalidValue, fmt::format("expects the address of argument {} of {}", i, program.name));
        }
        std::memcpy(config.parameters.data() + arguments[i]->offset, parameters[i], arguments[i]->bytes);
      }
    } else if (extra) {
      // A list that ends with 3: 1 is the buffer, 2 the address of its size.
      const void *buffer = nullptr;
      size_t size = 0;
      for (size_t i = 0; extra[i] && reinterpret_cast<uintptr_t>(extra[i]) != 3; i += 2) {
        const auto key = reinterpret_cast<uintptr_t>(extra[i]);
        if (key == 1) {
          buffer = extra[i + 1];
        } else if (key == 2) {
          size = *static_cast<const size_t *>(extra[i + 1]);
        } else {
          return error(InvalidValue, "expects a buffer and its size as extra parameters");
        }
      }
      if (!buffer || size < bytes || size > program.kernel->kernargBytes) {
        return error(InvalidValue,
                     fmt::format("expects {} bytes of arguments for {}, but got {}", bytes, program.name, size));
      }
      config.parameters.resize(size);
      std::memcpy(config.parameters.data(), buffer, size);
    } else if (!arguments.empty()) {
      return error(InvalidValue,
                   fmt::format("expects {} arguments for {}, but got none", arguments.size(), program.name));
    }
    checkLaunch(program, config);
    return device.streams.enqueue(stream, [&device, module = function->module, &program, config]() -> Result {
      // A graph may outlive the module of its kernels.
      if (!isIn(device.modules, module)) {
        return error(InvalidHandle, "expects the modules of a graph's kernels to be loaded when it is launched");
      }
      run(device, program, config);
      return Success;
    });
  });
}

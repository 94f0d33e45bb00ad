//===- Module.cpp - Modules, functions and launches -----------------------===//
#include "cuda/Driver.h"
#include "ptx/Report.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace kvc::sim;
using namespace kvc::sim::cuda;

// Modules -------------------------------------------------------------------------------------------------------------

static Result load(Context &context, ModuleHandle **module, const std::string &name, std::string text) {
  auto handle = std::make_unique<ModuleHandle>();
  handle->context = &context;
  handle->loaded = std::make_unique<ptx::LoadedModule>(context.memory, name, std::move(text),
                                                       ptx::parseTarget(context.device->chip->target));
  // As ptxas does: an error in any kernel is one of the module.
  for (const auto &function : handle->loaded->module().functions) {
    if (function->isEntry && function->hasBody) {
      handle->loaded->kernel(function->name);
    }
  }
  *module = addTo(context.modules, std::move(handle));
  return Success;
}

static Result loadImage(Context &context, ModuleHandle **module, const void *image) {
  if (!image || !module) {
    return error(InvalidValue, "expects an image");
  }
  const auto *bytes = static_cast<const unsigned char *>(image);
  // ELF and fat binaries hold machine code, which an interpreter of PTX has no use for.
  static constexpr unsigned char elf[] = {0x7f, 'E', 'L', 'F'}, fat[] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(bytes, elf, 4) == 0 || std::memcmp(bytes, fat, 4) == 0) {
    return error(NoBinaryForGpu, "expects PTX: the simulator does not run machine code (cubin)");
  }
  return load(context, module, "module", std::string(static_cast<const char *>(image)));
}

KVCSIM_API cuModuleLoadData(ModuleHandle **module, const void *image) {
  return withoutCapture("load of a module", [&](Context &context) { return loadImage(context, module, image); });
}

/// Options of the compiler change no result; the buffer for its errors gets the text.
KVCSIM_API cuModuleLoadDataEx(ModuleHandle **module, const void *image, unsigned count, int *options, void **values) {
  const int result = cuModuleLoadData(module, image);
  constexpr int errorBuffer = 5, errorBytes = 6;
  char *buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == errorBuffer) {
      buffer = static_cast<char *>(values[i]);
    } else if (options[i] == errorBytes) {
      room = reinterpret_cast<size_t>(values[i]) & 0xffffffff;
    }
  }
  if (buffer && room != 0) {
    std::lock_guard lock(driver().mutex);
    const std::string text = result == Success ? "" : driver().lastError.substr(0, room - 1);
    std::memcpy(buffer, text.c_str(), text.size() + 1);
  }
  return result;
}

KVCSIM_API cuModuleLoad(ModuleHandle **module, const char *path) {
  return withoutCapture("load of a module", [&](Context &context) -> Result {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      return error(FileNotFound, fmt::format("expects a readable file, but got {}", path));
    }
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (text.rfind("\x7f"
                   "ELF",
                   0) == 0) {
      return error(NoBinaryForGpu, "expects PTX: the simulator does not run machine code (cubin)");
    }
    return load(context, module, path, std::move(text));
  });
}

KVCSIM_API cuModuleUnload(ModuleHandle *module) {
  return withoutCapture("unload of a module", [&](Context &context) -> Result {
    return removeFrom(context.modules, module) ? Success : error(InvalidHandle, "expects a module of this context");
  });
}

KVCSIM_API cuModuleGetFunction(FunctionHandle **function, ModuleHandle *module, const char *name) {
  return withContext([&](Context &context) -> Result {
    if (!isIn(context.modules, module)) {
      return error(InvalidHandle, "expects a module of this context");
    }
    const ptx::Function *found = module->loaded->module().find(name);
    if (!found || !found->isEntry) {
      return error(NotFound, fmt::format("expects a kernel of the module, but got {}", name));
    }
    auto &handle = module->functions[name];
    if (!handle) {
      handle = std::make_unique<FunctionHandle>();
      handle->module = module;
      handle->program = &module->loaded->kernel(name);
      const int statics = int(handle->program->staticShared);
      handle->maxDynamicShared = std::max(0, 49152 - statics);
    }
    *function = handle.get();
    return Success;
  });
}

KVCSIM_API cuModuleGetGlobal_v2(DevicePointer *pointer, size_t *bytes, ModuleHandle *module, const char *name) {
  return withContext([&](Context &context) -> Result {
    if (!isIn(context.modules, module)) {
      return error(InvalidHandle, "expects a module of this context");
    }
    uint64_t address = 0, size = 0;
    if (!module->loaded->variable(name, address, size)) {
      return error(NotFound, fmt::format("expects a variable of the module, but got {}", name));
    }
    if (pointer) {
      *pointer = address;
    }
    if (bytes) {
      *bytes = size;
    }
    return Success;
  });
}

// Functions -----------------------------------------------------------------------------------------------------------

static bool isFunction(const Context &context, const FunctionHandle *function) {
  for (const auto &module : context.modules) {
    for (const auto &[name, handle] : module->functions) {
      if (handle.get() == function) {
        return true;
      }
    }
  }
  return false;
}

template <typename F> static int withFunction(FunctionHandle *function, F f) {
  return withContext([&](Context &context) -> int {
    if (!isFunction(context, function)) {
      return error(InvalidHandle, "expects a function of this context");
    }
    return f(context);
  });
}

KVCSIM_API cuFuncGetAttribute(int *value, int attribute, FunctionHandle *function) {
  return withFunction(function, [&](Context &context) -> Result {
    const ptx::Program &program = *function->program;
    const ptx::Function &kernel = *program.kernel;
    const auto &required = kernel.requiredThreads[0] ? kernel.requiredThreads : kernel.maxThreads;
    switch (attribute) {
    case FunctionMaxThreadsPerBlock:
      *value = required[0] ? int(required[0] * required[1] * required[2]) : 1024;
      return Success;
    case FunctionSharedBytes:
      *value = int(program.staticShared);
      return Success;
    case FunctionConstBytes:
      *value = 0;
      return Success;
    case FunctionLocalBytes:
      *value = int(program.localBytes > ptx::reservedLocal ? program.localBytes - ptx::reservedLocal : 0);
      return Success;
    case FunctionRegisters:
      // Virtual registers are not those of the machine; the bound is what can be said.
      *value = kernel.maxRegisters ? int(kernel.maxRegisters) : 255;
      return Success;
    case FunctionPtxVersion:
      *value = int(program.module->versionMajor * 10 + program.module->versionMinor);
      return Success;
    case FunctionBinaryVersion:
      *value = context.device->chip->major * 10 + context.device->chip->minor;
      return Success;
    case FunctionMaxDynamicShared:
      *value = function->maxDynamicShared;
      return Success;
    case FunctionSharedCarveout:
      *value = -1;
      return Success;
    case FunctionClusterSizeMustBeSet:
      *value = 0;
      return Success;
    case FunctionClusterWidth:
    case FunctionClusterHeight:
    case FunctionClusterDepth:
      *value = int(kernel.clusterSize[size_t(attribute - FunctionClusterWidth)]);
      return Success;
    case FunctionNonPortableCluster:
      *value = function->nonPortableCluster;
      return Success;
    default:
      return error(InvalidValue,
                   fmt::format("expects a function attribute that the simulator has, but got {}", attribute));
    }
  });
}

KVCSIM_API cuFuncSetAttribute(FunctionHandle *function, int attribute, int value) {
  return withFunction(function, [&](Context &context) -> Result {
    switch (attribute) {
    case FunctionMaxDynamicShared: {
      const int most = context.device->chip->sharedPerBlockOptin - int(function->program->staticShared);
      if (value < 0 || value > most) {
        return error(InvalidValue, fmt::format("expects at most {} bytes of dynamic shared memory for {}, but got {}",
                                               most, function->program->name, value));
      }
      function->maxDynamicShared = value;
      return Success;
    }
    case FunctionNonPortableCluster:
      function->nonPortableCluster = value != 0;
      return Success;
    case FunctionSharedCarveout:
    case FunctionClusterPolicy:
      return Success;
    default:
      return error(InvalidValue, fmt::format("expects a function attribute that can be set, but got {}", attribute));
    }
  });
}

KVCSIM_API cuFuncSetCacheConfig(FunctionHandle *function, int config) {
  return withFunction(function, [](Context &) { return Success; });
}

KVCSIM_API cuFuncGetModule(ModuleHandle **module, FunctionHandle *function) {
  return withFunction(function, [&](Context &) {
    *module = function->module;
    return Success;
  });
}

KVCSIM_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, FunctionHandle *function, int blockSize,
                                                       size_t dynamicShared) {
  return withFunction(function, [&](Context &context) -> Result {
    if (blockSize <= 0 || blockSize > 1024) {
      return error(InvalidValue, fmt::format("expects a block of 1 to 1024 threads, but got {}", blockSize));
    }
    const Chip &chip = *context.device->chip;
    const size_t shared = function->program->staticShared + dynamicShared + 1024;
    const int threads = (blockSize + 31) / 32 * 32;
    const int byShared = int(size_t(chip.sharedPerMultiprocessor) / shared);
    *blocks = std::min({byShared, chip.threadsPerMultiprocessor / threads, chip.blocksPerMultiprocessor});
    return Success;
  });
}

// Launches ------------------------------------------------------------------------------------------------------------

static void report(const Chip &chip, const ptx::Program &program, const ptx::LaunchResult &result) {
  Driver &state = driver();
  state.warn(result.warnings);
  if (state.wantsReports()) {
    const ptx::ChipRates *rates = ptx::ratesOf(unsigned(chip.major * 10 + chip.minor));
    state.report(reportJson(program, result, state.instructions, rates).dump());
  }
}

static Result run(Context &context, const ptx::Program &program, const ptx::LaunchConfig &config) {
  ptx::LaunchOptions options = driver().launch;
  options.smCount = unsigned(context.device->chip->multiprocessors);
  try {
    report(*context.device->chip, program, runKernel(program, config, context.memory, options));
    return Success;
  } catch (const Fault &fault) {
    // The calls after the launch tell.
    context.failed = error(resultOf(fault), fault.what());
    if (context.failed == InvalidValue) {
      context.failed = LaunchFailed;
    }
    driver().logError(fault.what());
    return Success;
  }
}

static int launch(Context &context, FunctionHandle *function, ptx::LaunchConfig config, Stream *stream,
                  void **parameters, void **extra) {
  const ptx::Program &program = *function->program;
  const Chip &chip = *context.device->chip;
  config.parameters.assign(program.parameterBytes, 0);
  if (parameters) {
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      if (!parameters[i]) {
        return error(InvalidValue, fmt::format("expects the address of parameter {} of {}", i, program.name));
      }
      std::memcpy(config.parameters.data() + program.parameters[i].offset, parameters[i], program.parameters[i].bytes);
    }
  } else if (extra) {
    // A list of pairs that ends with null: 1 is the buffer, 2 the address of its size.
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (size_t i = 0; extra[i] != nullptr; i += 2) {
      const auto key = reinterpret_cast<uintptr_t>(extra[i]);
      if (key == 1) {
        buffer = extra[i + 1];
      } else if (key == 2) {
        bytes = *static_cast<const size_t *>(extra[i + 1]);
      } else {
        return error(InvalidValue, "expects a buffer and its size as extra parameters");
      }
    }
    if (!buffer || bytes != config.parameters.size()) {
      return error(InvalidValue, fmt::format("expects {} bytes of parameters for {}, but got {}",
                                             config.parameters.size(), program.name, bytes));
    }
    std::memcpy(config.parameters.data(), buffer, bytes);
  } else if (!program.parameters.empty()) {
    return error(InvalidValue,
                 fmt::format("expects {} parameters for {}, but got none", program.parameters.size(), program.name));
  }
  if (config.dynamicShared > uint32_t(function->maxDynamicShared)) {
    return error(
        InvalidValue,
        fmt::format(
            "expects at most {} bytes of dynamic shared memory for {} (cuFuncSetAttribute raises it), but got {}",
            function->maxDynamicShared, program.name, config.dynamicShared));
  }
  if (config.cluster.count() > 1 && chip.major < 9) {
    return error(InvalidClusterSize, "expects no clusters before sm_90");
  }
  if (config.cluster.count() > 8 && !function->nonPortableCluster) {
    return error(InvalidClusterSize,
                 fmt::format("expects clusters of at most 8 CTAs, but got {}", config.cluster.count()));
  }
  checkLaunch(program, config);
  return context.streams.enqueue(stream, [&context, module = function->module, &program, config]() -> Result {
    // A graph may outlive the module of its kernels.
    if (!isIn(context.modules, module)) {
      return error(InvalidHandle, "expects the modules of a graph's kernels to be loaded when it is launched");
    }
    return run(context, program, config);
  });
}

static ptx::Dim3 clusterOf(const ptx::Program &program) {
  const auto &size = program.kernel->clusterSize;
  return size[0] ? ptx::Dim3{size[0], size[1], size[2]} : ptx::Dim3{};
}

KVCSIM_API cuLaunchKernel(FunctionHandle *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                          unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream *stream, void **parameters,
                          void **extra) {
  return withFunction(function, [&](Context &context) {
    ptx::LaunchConfig config;
    config.grid = {gridX, gridY, gridZ};
    config.block = {blockX, blockY, blockZ};
    config.cluster = clusterOf(*function->program);
    config.dynamicShared = sharedBytes;
    return launch(context, function, std::move(config), stream, parameters, extra);
  });
}

KVCSIM_API cuLaunchCooperativeKernel(FunctionHandle *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                                     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                                     Stream *stream, void **parameters) {
  return cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, parameters,
                        nullptr);
}

KVCSIM_API cuLaunchKernelEx(const LaunchConfiguration *from, FunctionHandle *function, void **parameters,
                            void **extra) {
  return withFunction(function, [&](Context &context) -> int {
    ptx::LaunchConfig config;
    config.grid = {from->gridX, from->gridY, from->gridZ};
    config.block = {from->blockX, from->blockY, from->blockZ};
    config.cluster = clusterOf(*function->program);
    config.dynamicShared = from->sharedBytes;
    for (unsigned i = 0; i < from->attributeCount; ++i) {
      const LaunchAttribute &attribute = from->attributes[i];
      switch (attribute.id) {
      case LaunchClusterDimension: {
        const auto &d = attribute.value.dimensions;
        config.cluster = {d[0], d[1], d[2]};
        break;
      }
      case LaunchIgnore:
      case LaunchCooperative:
      case LaunchClusterPolicy:
      case LaunchProgrammaticSerialization:
      case LaunchPriority:
      case LaunchSharedCarveout:
        break;
      default:
        return error(NotSupported,
                     fmt::format("expects a launch attribute that the simulator has, but got {}", int(attribute.id)));
      }
    }
    return launch(context, function, std::move(config), from->stream, parameters, extra);
  });
}

KVCSIM_API cuLaunchHostFunc(Stream *stream, void (*function)(void *), void *data) {
  return withContext([&](Context &context) {
    return context.streams.enqueue(stream, [function, data] {
      function(data);
      return Success;
    });
  });
}

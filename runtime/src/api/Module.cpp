//===- Module.cpp - C API: status, devices, modules -----------------------===//
//
// Thin functions over core/; checks of pointers happen here.
//
//===----------------------------------------------------------------------===//
#include "api/Handles.h"

#include <fmt/format.h>

namespace kvc::api {

namespace {
thread_local std::string lastError;

static_assert(int(StatusCode::invalidArgument) == KVC_INVALID_ARGUMENT && int(StatusCode::internal) == KVC_INTERNAL &&
              int(StatusCode::corrupt) == KVC_CORRUPT && int(StatusCode::exhausted) == KVC_EXHAUSTED);
static_assert(int(fb::DType::i8) == KVC_I8 && int(fb::DType::f16) == KVC_F16 && int(fb::DType::f64) == KVC_F64 &&
              int(fb::DType::i1) == KVC_I1 && int(fb::DType::MAX) == KVC_I1);
static_assert(int(rt::Argument::Kind::tensor) == KVC_TENSOR && int(rt::Argument::Kind::real) == KVC_REAL);

constexpr const char *statusNames[] = {"ok",          "invalid argument", "out of range", "not found",     "corrupt",
                                       "unsupported", "exhausted",        "I/O error",    "internal error"};

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }
const char *textOf(const flatbuffers::String *string) { return string ? string->c_str() : ""; }
} // namespace

kvc_status_t fail(StatusCode code, std::string message) noexcept {
  lastError = std::move(message);
  return kvc_status_t(code);
}

Status nullArgument(const char *what) {
  return Status(StatusCode::invalidArgument, fmt::format("expects '{}' to be set, but got a null pointer", what));
}

Status checkFunction(const rt::Module &module, size_t function) {
  if (function >= module.functionCount()) {
    return Status(StatusCode::outOfRange,
                  fmt::format("expects one of {} functions, but got {}", module.functionCount(), function));
  }
  return {};
}

namespace {

kvc_status_t load(kvc_device_t *device, const kvc_module_options_t *options, kvc_module_t **out,
                  Result<artifact::Artifact> (*open)(const void *, size_t), const void *source, size_t size) {
  if (out) {
    *out = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    KVC_REQUIRE(out);
    if (!source) {
      return nullArgument("path or bytes");
    }
    KVC_ASSIGN_OR_RETURN(kvc_module_options_t given, readOptions(options, "module options"));
    KVC_ASSIGN_OR_RETURN(artifact::Artifact artifact, open(source, size));
    KVC_ASSIGN_OR_RETURN(std::shared_ptr<rt::Module> loaded,
                         rt::Module::create(device->device, std::move(artifact), given.target ? given.target : ""));
    *out = new kvc_module(std::move(loaded));
    return {};
  });
}

Status describe(const rt::Module &module, size_t function, const fb::Port &port, kvc_port_t *out) {
  const fb::Value &value = *module.function(function).values()->Get(port.value());
  *out = {};
  out->name = textOf(port.name());
  out->ir_type = textOf(port.ir_type());
  if (const fb::Tensor *tensor = value.type_as_Tensor()) {
    out->kind = KVC_TENSOR;
    out->dtype = kvc_dtype_t(tensor->dtype());
    out->rank = int32_t(sizeOfVector(tensor->dims()));
    for (int32_t axis = 0; axis < out->rank; ++axis) {
      out->dims[axis] = tensor->dims()->Get(size_t(axis))->size();
    }
  } else if (const fb::Cache *cache = value.type_as_Cache()) {
    out->kind = KVC_CACHE;
    out->cache_spec = cache->spec();
  } else if (const fb::Scalar *scalar = value.type_as_Scalar()) {
    out->kind = scalar->dtype() == fb::DType::f32 ? KVC_REAL : KVC_INTEGER;
    out->dtype = kvc_dtype_t(scalar->dtype());
  } else {
    out->kind = KVC_BATCH;
  }
  return {};
}

using Ports = const flatbuffers::Vector<flatbuffers::Offset<fb::Port>> *;

template <typename Get>
kvc_status_t describePort(const kvc_module_t *module, size_t function, size_t index, kvc_port_t *port, Get get) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(port);
    KVC_RETURN_IF_ERROR(checkFunction(*module->module, function));
    Ports ports = get(module->module->function(function));
    if (index >= sizeOfVector(ports)) {
      return Status(StatusCode::outOfRange,
                    fmt::format("expects one of {} ports, but got {}", sizeOfVector(ports), index));
    }
    return describe(*module->module, function, *ports->Get(index), port);
  });
}

template <typename Get> kvc_status_t countPorts(const kvc_module_t *module, size_t function, size_t *count, Get get) {
  if (count) {
    *count = 0;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(count);
    KVC_RETURN_IF_ERROR(checkFunction(*module->module, function));
    *count = sizeOfVector(get(module->module->function(function)));
    return {};
  });
}

Ports argumentsOf(const fb::Function &function) { return function.arguments(); }
Ports resultsOf(const fb::Function &function) { return function.results(); }

} // namespace
} // namespace kvc::api

using namespace kvc;
using namespace kvc::api;

const char *kvc_last_error_message(void) { return lastError.c_str(); }

const char *kvc_status_name(kvc_status_t status) {
  return size_t(status) < std::size(statusNames) ? statusNames[size_t(status)] : "?";
}

const char *kvc_version(void) { return KVC_VERSION; }

size_t kvc_dtype_size(kvc_dtype_t dtype) { return unsigned(dtype) > KVC_I1 ? 0 : artifact::sizeOf(fb::DType(dtype)); }

const char *kvc_dtype_name(kvc_dtype_t dtype) {
  return unsigned(dtype) > KVC_I1 ? "?" : artifact::nameOf(fb::DType(dtype));
}

kvc_status_t kvc_device_create(const char *name, const kvc_device_options_t *options, kvc_device_t **device) {
  if (device) {
    *device = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(name);
    KVC_REQUIRE(device);
    KVC_ASSIGN_OR_RETURN(kvc_device_options_t given, readOptions(options, "device options"));
    rt::DeviceOptions converted;
    converted.threads = given.threads;
    converted.target = given.target ? given.target : "";
    auto handle = std::make_unique<kvc_device>();
    KVC_ASSIGN_OR_RETURN(handle->device, rt::createDevice(name, converted));
    *device = handle.release();
    return {};
  });
}

void kvc_device_release(kvc_device_t *device) { delete device; }

const char *kvc_device_name(const kvc_device_t *device) { return device ? device->device->name().c_str() : ""; }

kvc_status_t kvc_device_supports(const kvc_device_t *device, const char *target) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    KVC_REQUIRE(target);
    return device->device->rankTarget(target).status();
  });
}

kvc_status_t kvc_device_set_profiling(kvc_device_t *device, int32_t on) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    device->device->profile().set(on != 0);
    return {};
  });
}

kvc_status_t kvc_device_set_graphs(kvc_device_t *device, int32_t on) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    if (on && !device->device->hasGraphs()) {
      return {StatusCode::unsupported,
              "expects a device that replays graphs, such as cuda:0, but got '" + device->device->name() + "'"};
    }
    device->device->setGraphs(on != 0);
    return {};
  });
}

kvc_status_t kvc_device_get_graph_counts(const kvc_device_t *device, int64_t *captured, int64_t *launched) {
  for (int64_t *count : {captured, launched}) {
    if (count) {
      *count = 0;
    }
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    KVC_REQUIRE(captured);
    KVC_REQUIRE(launched);
    const rt::GraphCounts counts = device->device->graphCounts();
    *captured = counts.captured;
    *launched = counts.launched;
    return {};
  });
}

kvc_status_t kvc_device_take_profile(kvc_device_t *device, const char **json) {
  static thread_local std::string text;
  if (json) {
    *json = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(device);
    KVC_REQUIRE(json);
    text = device->device->profile().take();
    *json = text.c_str();
    return {};
  });
}

kvc_status_t kvc_module_load_file(kvc_device_t *device, const char *path, const kvc_module_options_t *options,
                                  kvc_module_t **module) {
  auto open = [](const void *source, size_t) { return artifact::Artifact::open(static_cast<const char *>(source)); };
  return load(device, options, module, open, path, 0);
}

kvc_status_t kvc_module_load_bytes(kvc_device_t *device, const void *bytes, size_t size,
                                   const kvc_module_options_t *options, kvc_module_t **module) {
  auto open = [](const void *source, size_t length) {
    const auto *begin = static_cast<const uint8_t *>(source);
    return artifact::Artifact::fromBytes(std::vector<uint8_t>(begin, begin + length));
  };
  return load(device, options, module, open, bytes, size);
}

void kvc_module_release(kvc_module_t *module) { delete module; }

kvc_status_t kvc_module_bind_weights(kvc_module_t *module, const char *gguf_path) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(gguf_path);
    return module->module->bindWeights(gguf_path);
  });
}

const char *kvc_module_target(const kvc_module_t *module) { return module ? module->target.c_str() : ""; }
const char *kvc_module_provenance(const kvc_module_t *module) { return module ? module->provenance.c_str() : ""; }

size_t kvc_module_function_count(const kvc_module_t *module) { return module ? module->module->functionCount() : 0; }

const char *kvc_module_function_name(const kvc_module_t *module, size_t function) {
  if (!module || function >= module->module->functionCount()) {
    return nullptr;
  }
  return module->module->function(function).name()->c_str();
}

kvc_status_t kvc_module_find_function(const kvc_module_t *module, const char *name, size_t *function) {
  if (function) {
    *function = 0;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(name);
    KVC_REQUIRE(function);
    KVC_ASSIGN_OR_RETURN(*function, module->module->findFunction(name));
    return {};
  });
}

kvc_status_t kvc_module_argument_count(const kvc_module_t *module, size_t function, size_t *count) {
  return countPorts(module, function, count, argumentsOf);
}

kvc_status_t kvc_module_result_count(const kvc_module_t *module, size_t function, size_t *count) {
  return countPorts(module, function, count, resultsOf);
}

kvc_status_t kvc_module_argument(const kvc_module_t *module, size_t function, size_t index, kvc_port_t *port) {
  return describePort(module, function, index, port, argumentsOf);
}

kvc_status_t kvc_module_result(const kvc_module_t *module, size_t function, size_t index, kvc_port_t *port) {
  return describePort(module, function, index, port, resultsOf);
}

size_t kvc_module_cache_spec_count(const kvc_module_t *module) {
  return module ? module->module->cacheSpecs().size() : 0;
}

kvc_status_t kvc_module_cache_spec(const kvc_module_t *module, size_t index, kvc_cache_spec_t *spec) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(spec);
    const auto &specs = module->module->cacheSpecs();
    if (index >= specs.size()) {
      return Status(StatusCode::outOfRange,
                    fmt::format("expects one of {} cache specs, but got {}", specs.size(), index));
    }
    const rt::CacheSpec &from = *specs[index];
    *spec = {from.name.c_str(),       from.type.c_str(),       int32_t(from.kvHeads),  int32_t(from.tablesPerSequence),
             int32_t(from.pageSlots), int32_t(from.tailSlots), int32_t(from.residual), int32_t(from.sealGroup),
             from.pageBytes,          from.tailBytes};
    return {};
  });
}

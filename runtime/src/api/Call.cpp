//===- Call.cpp - C API: calls, values, contexts --------------------------===//
//
// Conversion of arguments and results, and the functions of a context.
//
//===----------------------------------------------------------------------===//
#include "api/Handles.h"

#include <fmt/format.h>

#include <optional>

namespace kvc::api {
namespace {

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }

Status invalid(std::string message) { return Status(StatusCode::invalidArgument, std::move(message)); }

bool isCache(const fb::Function &function, const fb::Port &port) {
  return function.values()->Get(port.value())->type_as_Cache() != nullptr;
}

Result<rt::Argument> convert(const kvc_argument_t &from) {
  rt::Argument to;
  switch (from.kind) {
  case KVC_TENSOR:
    if (unsigned(from.tensor.dtype) > KVC_I1) {
      return invalid(fmt::format("expects a known element type, but got {}", int(from.tensor.dtype)));
    }
    if (from.tensor.rank < 0 || from.tensor.rank > KVC_MAX_RANK) {
      return invalid(fmt::format("expects a rank from 0 to {}, but got {}", KVC_MAX_RANK, from.tensor.rank));
    }
    if (from.tensor.rank > 0 && !from.tensor.dims) {
      return nullArgument("tensor.dims");
    }
    to.dtype = fb::DType(from.tensor.dtype);
    to.dims.assign(from.tensor.dims, from.tensor.dims + from.tensor.rank);
    to.data = from.tensor.data;
    break;
  case KVC_CACHE:
    KVC_REQUIRE(from.cache);
    to.cache = from.cache->cache;
    break;
  case KVC_BATCH:
    KVC_REQUIRE(from.batch);
    to.batch = from.batch->batch;
    break;
  case KVC_INTEGER:
    to.integer = from.integer;
    break;
  case KVC_REAL:
    to.real = from.real;
    break;
  default:
    return invalid(fmt::format("expects a known kind, but got {}", int(from.kind)));
  }
  to.kind = rt::Argument::Kind(from.kind);
  return to;
}

} // namespace

Result<std::vector<rt::Argument>> convertArguments(const rt::Module &module, size_t index,
                                                   const kvc_argument_t *arguments, size_t count, bool skipCaches) {
  const fb::Function &function = module.function(index);
  std::vector<const fb::Port *> ports;
  for (size_t i = 0; i < sizeOfVector(function.arguments()); ++i) {
    const fb::Port *port = function.arguments()->Get(i);
    if (!skipCaches || !isCache(function, *port)) {
      ports.push_back(port);
    }
  }
  if (count != ports.size()) {
    return invalid(
        fmt::format("function '{}' expects {} arguments, but got {}", function.name()->str(), ports.size(), count));
  }
  if (count > 0 && !arguments) {
    return nullArgument("arguments");
  }
  std::vector<std::optional<rt::Argument>> placed(ports.size());
  auto place = [&](size_t port, const kvc_argument_t &argument) -> Status {
    Result<rt::Argument> converted = convert(argument);
    if (!converted.ok()) {
      return Status(converted.status()).withContext(fmt::format("argument {}", port));
    }
    placed[port] = *std::move(converted);
    return {};
  };
  for (size_t i = 0; i < count; ++i) {
    if (!arguments[i].name) {
      continue;
    }
    size_t port = 0;
    while (port < ports.size() && rt::Module::viewOf(ports[port]->name()) != arguments[i].name) {
      ++port;
    }
    if (port == ports.size() || placed[port]) {
      return invalid(fmt::format("function '{}' expects {} argument '{}'", function.name()->str(),
                                 port == ports.size() ? "no" : "only one", arguments[i].name));
    }
    KVC_RETURN_IF_ERROR(place(port, arguments[i]));
  }
  size_t port = 0;
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].name) {
      continue;
    }
    // Counts agree and names are placed once, so a port is left.
    while (placed[port]) {
      ++port;
    }
    KVC_RETURN_IF_ERROR(place(port, arguments[i]));
  }
  std::vector<rt::Argument> ordered;
  for (std::optional<rt::Argument> &argument : placed) {
    ordered.push_back(*std::move(argument));
  }
  return ordered;
}

size_t resultCount(const rt::Module &module, size_t index, bool skipCaches) {
  const fb::Function &function = module.function(index);
  size_t count = 0;
  for (size_t i = 0; i < sizeOfVector(function.results()); ++i) {
    count += !skipCaches || !isCache(function, *function.results()->Get(i));
  }
  return count;
}

Status convertResults(const std::shared_ptr<rt::Module> &module, std::vector<rt::CallResult> &results,
                      kvc_value_t **handles) {
  std::vector<std::unique_ptr<kvc_value>> made;
  for (rt::CallResult &result : results) {
    made.push_back(std::make_unique<kvc_value>(kvc_value{module, std::move(result)}));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    handles[i] = made[i].release();
  }
  return {};
}

namespace {

Status checkCall(const rt::Module &module, size_t function, kvc_value_t **results, size_t count, bool skipCaches) {
  KVC_RETURN_IF_ERROR(checkFunction(module, function));
  size_t want = resultCount(module, function, skipCaches);
  if (count != want) {
    return invalid(fmt::format("function '{}' returns {} results, but got room for {}",
                               module.function(function).name()->str(), want, count));
  }
  return results || count == 0 ? Status() : nullArgument("results");
}

void clearHandles(kvc_value_t **results, size_t count) {
  for (size_t i = 0; results && i < count; ++i) {
    results[i] = nullptr;
  }
}

} // namespace
} // namespace kvc::api

using namespace kvc;
using namespace kvc::api;

kvc_status_t kvc_module_call(kvc_module_t *module, size_t function, const kvc_argument_t *arguments,
                             size_t argument_count, kvc_value_t **results, size_t result_count) {
  clearHandles(results, result_count);
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_RETURN_IF_ERROR(checkCall(*module->module, function, results, result_count, false));
    KVC_ASSIGN_OR_RETURN(std::vector<rt::Argument> ordered,
                         convertArguments(*module->module, function, arguments, argument_count, false));
    std::vector<rt::CallResult> values;
    KVC_RETURN_IF_ERROR(rt::run(module->module, function, ordered, values));
    return convertResults(module->module, values, results);
  });
}

void kvc_value_release(kvc_value_t *value) { delete value; }

kvc_kind_t kvc_value_kind(const kvc_value_t *value) { return value ? kvc_kind_t(value->result.kind) : KVC_TENSOR; }

namespace {
Status checkKind(const kvc_value_t *value, rt::Argument::Kind kind, const char *what) {
  KVC_REQUIRE(value);
  return value->result.kind == kind ? Status() : invalid(fmt::format("expects a value that is {}", what));
}
} // namespace

kvc_status_t kvc_value_tensor(const kvc_value_t *value, kvc_tensor_t *tensor) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(tensor);
    *tensor = {};
    KVC_RETURN_IF_ERROR(checkKind(value, rt::Argument::Kind::tensor, "a tensor"));
    *tensor = {kvc_dtype_t(value->result.dtype), int32_t(value->result.dims.size()), value->result.dims.data(),
               value->result.data()};
    return {};
  });
}

kvc_status_t kvc_value_integer(const kvc_value_t *value, int64_t *integer) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(integer);
    *integer = 0;
    KVC_RETURN_IF_ERROR(checkKind(value, rt::Argument::Kind::integer, "an integer"));
    *integer = value->result.integer;
    return {};
  });
}

kvc_status_t kvc_value_real(const kvc_value_t *value, float *real) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(real);
    *real = 0;
    KVC_RETURN_IF_ERROR(checkKind(value, rt::Argument::Kind::real, "a real number"));
    *real = value->result.real;
    return {};
  });
}

kvc_status_t kvc_value_cache(const kvc_value_t *value, kvc_cache_t **cache) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(cache);
    *cache = nullptr;
    KVC_RETURN_IF_ERROR(checkKind(value, rt::Argument::Kind::cache, "a cache"));
    *cache = new kvc_cache{value->module, value->result.cache};
    return {};
  });
}

kvc_status_t kvc_context_create(kvc_module_t *module, size_t function, const kvc_cache_options_t *options,
                                kvc_context_t **context) {
  if (context) {
    *context = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(module);
    KVC_REQUIRE(options);
    KVC_REQUIRE(context);
    KVC_RETURN_IF_ERROR(checkFunction(*module->module, function));
    KVC_ASSIGN_OR_RETURN(rt::CacheOptions given, cacheOptions(options));
    auto handle = std::make_unique<kvc_context>();
    KVC_ASSIGN_OR_RETURN(handle->context, rt::Context::create(module->module, function, given));
    *context = handle.release();
    return {};
  });
}

void kvc_context_release(kvc_context_t *context) { delete context; }

kvc_status_t kvc_context_module(kvc_context_t *context, kvc_module_t **module) {
  if (module) {
    *module = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(module);
    *module = new kvc_module(context->context->module());
    return {};
  });
}

size_t kvc_context_cache_count(const kvc_context_t *context) { return context ? context->context->caches().size() : 0; }

kvc_status_t kvc_context_cache(kvc_context_t *context, size_t index, kvc_cache_t **cache) {
  if (cache) {
    *cache = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(cache);
    const auto &caches = context->context->caches();
    if (index >= caches.size()) {
      return Status(StatusCode::outOfRange, fmt::format("expects one of {} caches, but got {}", caches.size(), index));
    }
    *cache = new kvc_cache{context->context->module(), caches[index]};
    return {};
  });
}

kvc_status_t kvc_sequence_create(kvc_context_t *context, int32_t *sequence) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(sequence);
    KVC_ASSIGN_OR_RETURN(*sequence, context->context->createSequence());
    return {};
  });
}

kvc_status_t kvc_sequence_free(kvc_context_t *context, int32_t sequence) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    return context->context->freeSequence(sequence);
  });
}

kvc_status_t kvc_sequence_fork(kvc_context_t *context, int32_t source, int32_t *sequence) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(sequence);
    KVC_ASSIGN_OR_RETURN(*sequence, context->context->forkSequence(source));
    return {};
  });
}

kvc_status_t kvc_sequence_truncate(kvc_context_t *context, int32_t sequence, int64_t length) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    return context->context->truncateSequence(sequence, length);
  });
}

kvc_status_t kvc_sequence_position(kvc_context_t *context, int32_t sequence, int64_t *position) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(position);
    KVC_ASSIGN_OR_RETURN(*position, context->context->position(sequence));
    return {};
  });
}

kvc_status_t kvc_context_batch(kvc_context_t *context, size_t entries, const int32_t *sequences, const int32_t *rows,
                               kvc_batch_t **batch) {
  if (batch) {
    *batch = nullptr;
  }
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(batch);
    if (entries > 0) {
      KVC_REQUIRE(sequences);
      KVC_REQUIRE(rows);
    }
    auto handle = std::make_unique<kvc_batch>();
    KVC_ASSIGN_OR_RETURN(handle->batch, context->context->batch({sequences, entries}, {rows, entries}));
    *batch = handle.release();
    return {};
  });
}

kvc_status_t kvc_context_get_statistics(kvc_context_t *context, kvc_cache_statistics_t *statistics) {
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    KVC_REQUIRE(statistics);
    copyStatistics(context->context->statistics(), statistics);
    return {};
  });
}

kvc_status_t kvc_context_call(kvc_context_t *context, size_t function, const kvc_argument_t *arguments,
                              size_t argument_count, kvc_value_t **results, size_t result_count) {
  clearHandles(results, result_count);
  return guarded([&]() -> Status {
    KVC_REQUIRE(context);
    const std::shared_ptr<rt::Module> &module = context->context->module();
    KVC_RETURN_IF_ERROR(checkCall(*module, function, results, result_count, true));
    KVC_ASSIGN_OR_RETURN(std::vector<rt::Argument> ordered,
                         convertArguments(*module, function, arguments, argument_count, true));
    std::vector<rt::CallResult> values;
    KVC_RETURN_IF_ERROR(context->context->call(function, ordered, values));
    return convertResults(module, values, results);
  });
}

//===- Handles.h - What stands behind the handles of the C API --*- C++ -*-===//
//
// Handle types, the last error of a thread, and the guard around every entry
// point: no exception crosses the C API.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_API_HANDLES_H
#define KVC_API_HANDLES_H

#include "core/Context.h"
#include "kvc_runtime.h"

#include <exception>
#include <new>

struct kvc_device {
  std::shared_ptr<kvc::rt::Device> device;
};
struct kvc_module {
  explicit kvc_module(std::shared_ptr<kvc::rt::Module> given)
      : module(std::move(given)), target(module->targetName()), provenance(module->provenance()) {}
  std::shared_ptr<kvc::rt::Module> module;
  std::string target, provenance; // for C: with a terminator
};
struct kvc_cache {
  std::shared_ptr<kvc::rt::Module> module;
  std::shared_ptr<kvc::rt::Cache> cache;
};
struct kvc_batch {
  std::shared_ptr<kvc::rt::Batch> batch;
};
struct kvc_context {
  std::shared_ptr<kvc::rt::Context> context;
};
struct kvc_value {
  std::shared_ptr<kvc::rt::Module> module;
  kvc::rt::CallResult result;
};

namespace kvc::api {

/// Stores the message of a failure for kvc_last_error_message.
kvc_status_t fail(StatusCode code, std::string message) noexcept;

/// Runs the body of an entry point, which returns a Status.
template <typename Body> kvc_status_t guarded(Body body) noexcept {
  try {
    Status status = body();
    return status.ok() ? KVC_OK : fail(status.code(), status.message());
  } catch (const std::bad_alloc &) {
    return fail(StatusCode::exhausted, "no host memory is left");
  } catch (const std::exception &error) {
    return fail(StatusCode::internal, error.what());
  }
}

Status nullArgument(const char *what);

/// Reads an options structure of a caller that may be older than this library:
/// what it does not have keeps its default.
template <typename T> Result<T> readOptions(const T *given, const char *what) {
  T options{};
  if (!given) {
    return options;
  }
  if (given->struct_size < sizeof(size_t) || given->struct_size > sizeof(T)) {
    return Status(StatusCode::invalidArgument,
                  std::string(what) + ": expects struct_size to be the size of the structure (at most " +
                      std::to_string(sizeof(T)) + "), but got " + std::to_string(given->struct_size));
  }
  __builtin_memcpy(&options, given, given->struct_size);
  return options;
}

Result<rt::CacheOptions> cacheOptions(const kvc_cache_options_t *given);
void copyStatistics(const rt::CacheStatistics &from, kvc_cache_statistics_t *to);

/// Orders named and positional arguments as the ports that `skipCaches` leaves.
Result<std::vector<rt::Argument>> convertArguments(const rt::Module &module, size_t function,
                                                   const kvc_argument_t *arguments, size_t count, bool skipCaches);
Status checkFunction(const rt::Module &module, size_t function);
/// Makes handles of results; `count` must be their number.
Status convertResults(const std::shared_ptr<rt::Module> &module, std::vector<rt::CallResult> &results,
                      kvc_value_t **handles);
/// The number of results of a function, with or without caches.
size_t resultCount(const rt::Module &module, size_t function, bool skipCaches);

} // namespace kvc::api

#define KVC_REQUIRE(argument)                                                                                          \
  if (!(argument)) {                                                                                                   \
    return ::kvc::api::nullArgument(#argument);                                                                        \
  }

#endif // KVC_API_HANDLES_H

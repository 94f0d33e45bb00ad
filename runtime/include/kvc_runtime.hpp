//===- kvc_runtime.hpp - C++ wrapper of the kvc runtime ---------*- C++ -*-===//
//
// Header-only. Handles that release themselves, and classes whose methods throw
// kvc::runtime::Error. Code that is compiled without exceptions has the handles
// and uses the C functions. Threads and lifetimes: see kvc_runtime.h.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_RUNTIME_HPP
#define KVC_RUNTIME_HPP

#include "kvc_runtime.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvc::runtime {

template <auto release> struct Release {
  template <typename T> void operator()(T *handle) const { release(handle); }
};
using DeviceHandle = std::unique_ptr<kvc_device_t, Release<kvc_device_release>>;
using ModuleHandle = std::unique_ptr<kvc_module_t, Release<kvc_module_release>>;
using CacheHandle = std::unique_ptr<kvc_cache_t, Release<kvc_cache_release>>;
using BatchHandle = std::unique_ptr<kvc_batch_t, Release<kvc_batch_release>>;
using ContextHandle = std::unique_ptr<kvc_context_t, Release<kvc_context_release>>;
using ValueHandle = std::unique_ptr<kvc_value_t, Release<kvc_value_release>>;

/// The dtype of a C++ type.
template <typename T> inline constexpr kvc_dtype_t dtypeOf = T::kvcDType;
template <> inline constexpr kvc_dtype_t dtypeOf<float> = KVC_F32;
template <> inline constexpr kvc_dtype_t dtypeOf<double> = KVC_F64;
template <> inline constexpr kvc_dtype_t dtypeOf<int8_t> = KVC_I8;
template <> inline constexpr kvc_dtype_t dtypeOf<uint8_t> = KVC_U8;
template <> inline constexpr kvc_dtype_t dtypeOf<int16_t> = KVC_I16;
template <> inline constexpr kvc_dtype_t dtypeOf<int32_t> = KVC_I32;
template <> inline constexpr kvc_dtype_t dtypeOf<int64_t> = KVC_I64;

/// An argument of a call. Tensors are views: data and dims must outlive the call.
class Argument : public kvc_argument_t {
public:
  template <typename T> static Argument tensor(const T *data, const std::vector<int64_t> &dims) {
    Argument argument(KVC_TENSOR);
    argument.kvc_argument_t::tensor = {dtypeOf<T>, int32_t(dims.size()), dims.data(), data};
    return argument;
  }
  static Argument integer(int64_t value) {
    Argument argument(KVC_INTEGER);
    argument.kvc_argument_t::integer = value;
    return argument;
  }
  static Argument real(float value) {
    Argument argument(KVC_REAL);
    argument.kvc_argument_t::real = value;
    return argument;
  }
  static Argument cache(kvc_cache_t *cache) {
    Argument argument(KVC_CACHE);
    argument.kvc_argument_t::cache = cache;
    return argument;
  }
  static Argument batch(kvc_batch_t *batch) {
    Argument argument(KVC_BATCH);
    argument.kvc_argument_t::batch = batch;
    return argument;
  }
  /// The same for the argument of that name.
  Argument named(const char *argumentName) const {
    Argument argument(*this);
    argument.name = argumentName;
    return argument;
  }

private:
  explicit Argument(kvc_kind_t argumentKind) : kvc_argument_t{} { kind = argumentKind; }
};

#if defined(__cpp_exceptions)

/// A failure of the runtime.
class Error : public std::exception {
public:
  explicit Error(kvc_status_t status) : Error(status, kvc_last_error_message()) {}
  Error(kvc_status_t status, std::string message) : code(status), text(std::move(message)) {}
  const char *what() const noexcept override { return text.c_str(); }
  kvc_status_t status() const noexcept { return code; }

private:
  kvc_status_t code;
  std::string text;
};

inline void check(kvc_status_t status) {
  if (status != KVC_OK) {
    throw Error(status);
  }
}

inline void checkSizes(const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows) {
  if (sequences.size() != rows.size()) {
    throw Error(KVC_INVALID_ARGUMENT, "expects a row count for each of " + std::to_string(sequences.size()) +
                                          " sequences, but got " + std::to_string(rows.size()));
  }
}

/// A result of a call.
class Value {
public:
  explicit Value(kvc_value_t *value) : handle(value) {}
  kvc_value_t *get() const { return handle.get(); }
  kvc_kind_t kind() const { return kvc_value_kind(get()); }

  kvc_tensor_t tensor() const {
    kvc_tensor_t view;
    check(kvc_value_tensor(get(), &view));
    return view;
  }
  std::vector<int64_t> dims() const {
    kvc_tensor_t view = tensor();
    return {view.dims, view.dims + view.rank};
  }
  /// A copy of the elements, which are of type T.
  template <typename T> std::vector<T> copy() const {
    kvc_tensor_t view = tensor();
    if (view.dtype != dtypeOf<T>) {
      throw Error(KVC_INVALID_ARGUMENT, std::string("expects elements of type ") + kvc_dtype_name(view.dtype) +
                                            ", but got " + kvc_dtype_name(dtypeOf<T>));
    }
    size_t count = 1;
    for (int32_t axis = 0; axis < view.rank; ++axis) {
      count *= size_t(view.dims[axis]);
    }
    const T *data = static_cast<const T *>(view.data);
    return {data, data + count};
  }
  int64_t integer() const {
    int64_t value;
    check(kvc_value_integer(get(), &value));
    return value;
  }
  float real() const {
    float value;
    check(kvc_value_real(get(), &value));
    return value;
  }
  CacheHandle cache() const {
    kvc_cache_t *cache;
    check(kvc_value_cache(get(), &cache));
    return CacheHandle(cache);
  }

private:
  ValueHandle handle;
};

class Device {
public:
  /// threads = 0: one per CPU that the process may use.
  explicit Device(const char *name = "cpu", int threads = 0, const char *target = nullptr) {
    kvc_device_options_t options{sizeof(options), threads, target};
    kvc_device_t *device;
    check(kvc_device_create(name, &options, &device));
    handle.reset(device);
  }
  kvc_device_t *get() const { return handle.get(); }

  void setGraphs(bool on) const { check(kvc_device_set_graphs(get(), on)); }
  struct GraphCounts {
    int64_t captured, launched;
  };
  GraphCounts graphCounts() const {
    GraphCounts counts;
    check(kvc_device_get_graph_counts(get(), &counts.captured, &counts.launched));
    return counts;
  }
  void setProfiling(bool on) const { check(kvc_device_set_profiling(get(), on)); }
  /// The dispatches since the last call, a JSON array.
  std::string takeProfile() const {
    const char *json;
    check(kvc_device_take_profile(get(), &json));
    return json;
  }

  BatchHandle batch(const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows,
                    const std::vector<int32_t> &positions) const {
    checkSizes(sequences, rows);
    size_t total = 0;
    for (int32_t count : rows) {
      total += count > 0 ? size_t(count) : 0;
    }
    if (positions.size() != total) {
      throw Error(KVC_INVALID_ARGUMENT, "expects a position for each of " + std::to_string(total) + " rows, but got " +
                                            std::to_string(positions.size()));
    }
    kvc_batch_t *batch;
    check(kvc_batch_create(get(), sequences.size(), sequences.data(), rows.data(), positions.data(), &batch));
    return BatchHandle(batch);
  }

private:
  DeviceHandle handle;
};

class Cache {
public:
  explicit Cache(CacheHandle cache) : handle(std::move(cache)) {}
  kvc_cache_t *get() const { return handle.get(); }

  void fork(int32_t source, int32_t destination) { check(kvc_cache_fork(get(), source, destination)); }
  void truncate(int32_t sequence, int64_t length) { check(kvc_cache_truncate(get(), sequence, length)); }
  void clear(int32_t sequence) { check(kvc_cache_clear(get(), sequence)); }
  int64_t length(int32_t sequence, int32_t head = 0) const {
    int64_t length;
    check(kvc_cache_length(get(), sequence, head, &length));
    return length;
  }
  int64_t position(int32_t sequence) const {
    int64_t position;
    check(kvc_cache_position(get(), sequence, &position));
    return position;
  }
  kvc_cache_statistics_t statistics() const {
    kvc_cache_statistics_t statistics;
    check(kvc_cache_get_statistics(get(), &statistics));
    return statistics;
  }
  Cache clone() const {
    kvc_cache_t *clone;
    check(kvc_cache_clone(get(), &clone));
    return Cache(CacheHandle(clone));
  }
  /// rows[i] new rows of sequences[i], positions following what is held.
  BatchHandle next(const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows) const {
    checkSizes(sequences, rows);
    kvc_batch_t *batch;
    check(kvc_batch_create_next(get(), sequences.size(), sequences.data(), rows.data(), &batch));
    return BatchHandle(batch);
  }

private:
  CacheHandle handle;
};

class Module {
public:
  static Module load(const Device &device, const std::string &path, const char *target = nullptr) {
    kvc_module_options_t options{sizeof(options), target};
    kvc_module_t *module;
    check(kvc_module_load_file(device.get(), path.c_str(), &options, &module));
    return Module(module);
  }
  static Module load(const Device &device, const void *bytes, size_t size, const char *target = nullptr) {
    kvc_module_options_t options{sizeof(options), target};
    kvc_module_t *module;
    check(kvc_module_load_bytes(device.get(), bytes, size, &options, &module));
    return Module(module);
  }
  kvc_module_t *get() const { return handle.get(); }

  void bindWeights(const std::string &path) { check(kvc_module_bind_weights(get(), path.c_str())); }
  size_t function(const char *name) const {
    size_t index;
    check(kvc_module_find_function(get(), name, &index));
    return index;
  }
  Cache cache(size_t spec, kvc_cache_options_t options) const {
    options.struct_size = sizeof(options);
    kvc_cache_t *cache;
    check(kvc_cache_create(get(), spec, &options, &cache));
    return Cache(CacheHandle(cache));
  }
  std::vector<Value> call(const char *name, const std::vector<Argument> &arguments) const {
    size_t index = function(name), count = 0;
    check(kvc_module_result_count(get(), index, &count));
    std::vector<kvc_value_t *> values(count);
    std::vector<kvc_argument_t> plain(arguments.begin(), arguments.end());
    check(kvc_module_call(get(), index, plain.data(), plain.size(), values.data(), count));
    return {values.begin(), values.end()};
  }

private:
  explicit Module(kvc_module_t *module) : handle(module) {}
  ModuleHandle handle;
};

/// The caches of all layers of a model, and its sequences.
class Context {
public:
  Context(const Module &module, const char *function, kvc_cache_options_t options) {
    options.struct_size = sizeof(options);
    kvc_context_t *context;
    check(kvc_context_create(module.get(), module.function(function), &options, &context));
    handle.reset(context);
    kvc_module_t *reference;
    check(kvc_context_module(get(), &reference));
    owner.reset(reference);
  }
  kvc_context_t *get() const { return handle.get(); }

  int32_t create() {
    int32_t sequence;
    check(kvc_sequence_create(get(), &sequence));
    return sequence;
  }
  void free(int32_t sequence) { check(kvc_sequence_free(get(), sequence)); }
  int32_t fork(int32_t source) {
    int32_t sequence;
    check(kvc_sequence_fork(get(), source, &sequence));
    return sequence;
  }
  void truncate(int32_t sequence, int64_t length) { check(kvc_sequence_truncate(get(), sequence, length)); }
  int64_t position(int32_t sequence) const {
    int64_t position;
    check(kvc_sequence_position(get(), sequence, &position));
    return position;
  }
  BatchHandle batch(const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows) const {
    checkSizes(sequences, rows);
    kvc_batch_t *batch;
    check(kvc_context_batch(get(), sequences.size(), sequences.data(), rows.data(), &batch));
    return BatchHandle(batch);
  }
  kvc_cache_statistics_t statistics() const {
    kvc_cache_statistics_t statistics;
    check(kvc_context_get_statistics(get(), &statistics));
    return statistics;
  }
  /// `arguments` without the caches; caches among the results are left out.
  std::vector<Value> call(const char *name, const std::vector<Argument> &arguments) {
    size_t function, ports, count = 0;
    check(kvc_module_find_function(owner.get(), name, &function));
    check(kvc_module_result_count(owner.get(), function, &ports));
    for (size_t i = 0; i < ports; ++i) {
      kvc_port_t port;
      check(kvc_module_result(owner.get(), function, i, &port));
      count += port.kind != KVC_CACHE;
    }
    std::vector<kvc_value_t *> values(count);
    std::vector<kvc_argument_t> plain(arguments.begin(), arguments.end());
    check(kvc_context_call(get(), function, plain.data(), plain.size(), values.data(), count));
    return {values.begin(), values.end()};
  }

private:
  ContextHandle handle;
  ModuleHandle owner;
};

#endif // __cpp_exceptions

} // namespace kvc::runtime

#endif // KVC_RUNTIME_HPP

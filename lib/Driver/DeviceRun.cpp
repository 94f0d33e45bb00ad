//===- DeviceRun.cpp - Runs a function of an artifact on arrays -----------===//
#include "kvc/Driver/DeviceRun.h"

#include "kvc/Target/Target.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <deque>

using namespace llvm;
using namespace kvc;

Error kvc::runtimeError() { return createStringError(kvc_last_error_message()); }

Expected<runtime::DeviceHandle> kvc::openDevice(const DeviceRunOptions &options) {
  kvc_device_options_t deviceOptions{sizeof(deviceOptions), options.threads, nullptr};
  kvc_device_t *device;
  if (kvc_device_create(options.device.c_str(), &deviceOptions, &device) != KVC_OK) {
    return runtimeError();
  }
  return runtime::DeviceHandle(device);
}

/// NumPy's kind of a dtype; 0 for types that NumPy does not have.
static char kindOf(kvc_dtype_t dtype) {
  switch (dtype) {
  case KVC_F16:
  case KVC_F32:
  case KVC_F64:
    return 'f';
  case KVC_U8:
    return 'u';
  case KVC_I1:
    return 'b';
  case KVC_BF16:
    return 0;
  default:
    return 'i';
  }
}

/// Bit pattern of a number in a floating point type.
static uint64_t bitsOf(double value, const fltSemantics &semantics) {
  APFloat number(value);
  bool inexact;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
  return number.bitcastToAPInt().getZExtValue();
}

/// The elements of `array` as elements of `dtype`.
static Expected<std::vector<char>> convert(const NpyArray &array, kvc_dtype_t dtype, const Twine &what) {
  bool wantsFloat = dtype == KVC_F16 || dtype == KVC_BF16 || dtype == KVC_F32 || dtype == KVC_F64;
  if (wantsFloat != array.isFloat()) {
    return createStringError("expects " + what + " of " + kvc_dtype_name(dtype) + ", but got " + Twine(array.kind) +
                             Twine(array.itemBytes));
  }
  int64_t bytes = kvc_dtype_size(dtype);
  if (array.kind == kindOf(dtype) && array.itemBytes == bytes) {
    return array.bytes;
  }
  std::vector<char> result(array.size() * bytes);
  const fltSemantics &semantics = dtype == KVC_F16    ? APFloat::IEEEhalf()
                                  : dtype == KVC_BF16 ? APFloat::BFloat()
                                  : dtype == KVC_F32  ? APFloat::IEEEsingle()
                                                      : APFloat::IEEEdouble();
  for (int64_t i = 0; i < array.size(); ++i) {
    uint64_t bits;
    if (wantsFloat) {
      bits = bitsOf(array.floatAt(i), semantics);
    } else {
      int64_t value = array.intAt(i);
      bool fits = dtype == KVC_I1   ? value == 0 || value == 1
                  : dtype == KVC_U8 ? isUInt<8>(value)
                                    : bytes == 8 || isIntN(8 * bytes, value);
      if (!fits) {
        return createStringError("expects elements of " + what + " that fit " + kvc_dtype_name(dtype) + ", but got " +
                                 Twine(value) + " at " + Twine(i));
      }
      bits = uint64_t(value);
    }
    std::memcpy(result.data() + i * bytes, &bits, bytes);
  }
  return result;
}

static Expected<std::vector<int32_t>> integers(const NpyArray &array, const Twine &what) {
  if (array.shape.size() != 1) {
    return createStringError("expects a rank 1 array for " + what + ", but got rank " + Twine(array.shape.size()));
  }
  Expected<std::vector<char>> bytes = convert(array, KVC_I32, what);
  if (!bytes) {
    return bytes.takeError();
  }
  std::vector<int32_t> values(array.size());
  if (!values.empty()) {
    std::memcpy(values.data(), bytes->data(), bytes->size());
  }
  return values;
}

namespace {
/// What a call's arguments point to.
class Call {
public:
  Call(kvc_device_t *device, kvc_module_t *module, size_t function, ArrayRef<NpyArray> inputs)
      : device(device), module(module), function(function), inputs(inputs) {}

  Error build(const DeviceRunOptions &options) {
    size_t count;
    if (kvc_module_argument_count(module, function, &count) != KVC_OK) {
      return runtimeError();
    }
    arguments.resize(count);
    std::vector<kvc_port_t> ports(count);
    for (size_t i = 0; i < count; ++i) {
      if (kvc_module_argument(module, function, i, &ports[i]) != KVC_OK) {
        return runtimeError();
      }
      arguments[i].kind = ports[i].kind;
      if (Error error = read(i, ports[i])) {
        return error;
      }
    }
    if (!inputs.empty()) {
      return createStringError("expects " + Twine(taken) + " input arrays, but got " + Twine(taken + inputs.size()));
    }
    for (size_t i = 0; i < count; ++i) {
      if (ports[i].kind == KVC_CACHE) {
        kvc_cache_options_t cacheOptions{sizeof(cacheOptions),
                                         int32_t(options.sequences < 0 ? sequences : options.sequences),
                                         options.capacity, options.cachePages, 0};
        kvc_cache_t *cache;
        if (kvc_cache_create(module, ports[i].cache_spec, &cacheOptions, &cache) != KVC_OK) {
          return runtimeError();
        }
        caches.emplace_back(cache);
        arguments[i].cache = cache;
      }
    }
    return Error::success();
  }

  ArrayRef<kvc_argument_t> get() const { return arguments; }

private:
  Expected<const NpyArray *> next(const Twine &what) {
    if (inputs.empty()) {
      return createStringError("expects another input array for " + what + ", but got none");
    }
    const NpyArray *array = &inputs.front();
    inputs = inputs.drop_front();
    ++taken;
    return array;
  }

  Error read(size_t i, const kvc_port_t &port) {
    std::string what = ("argument " + Twine(i)).str();
    if (port.kind == KVC_CACHE) {
      return Error::success();
    }
    if (port.kind == KVC_BATCH) {
      return readBatch(arguments[i], what);
    }
    Expected<const NpyArray *> array = next(what);
    if (!array) {
      return array.takeError();
    }
    if (port.kind == KVC_TENSOR) {
      Expected<std::vector<char>> bytes = convert(**array, port.dtype, what);
      if (!bytes) {
        return bytes.takeError();
      }
      storage.push_back(std::move(*bytes));
      shapes.emplace_back((*array)->shape.begin(), (*array)->shape.end());
      arguments[i].tensor = {port.dtype, int32_t(shapes.back().size()), shapes.back().data(), storage.back().data()};
      return Error::success();
    }
    if ((*array)->size() != 1 || (port.kind == KVC_REAL) != (*array)->isFloat()) {
      return createStringError("expects one number of " + Twine(kvc_dtype_name(port.dtype)) + " for " + what +
                               ", but got " + Twine((*array)->size()) + " of " + Twine((*array)->kind) +
                               Twine((*array)->itemBytes));
    }
    if (port.kind == KVC_REAL) {
      arguments[i].real = float((*array)->floatAt(0));
    } else {
      arguments[i].integer = (*array)->intAt(0);
    }
    return Error::success();
  }

  Error readBatch(kvc_argument_t &argument, const std::string &what) {
    static constexpr StringLiteral names[] = {"query_offsets", "sequences", "positions"};
    std::vector<int32_t> numbers[3];
    for (auto [name, list] : zip_equal(names, numbers)) {
      std::string part = (name + " of " + what).str();
      Expected<const NpyArray *> array = next(part);
      if (!array) {
        return array.takeError();
      }
      Expected<std::vector<int32_t>> values = integers(**array, part);
      if (!values) {
        return values.takeError();
      }
      list = std::move(*values);
    }
    auto &[offsets, ids, positions] = numbers;
    if (offsets.size() != ids.size() + 1 || offsets[0] != 0 || offsets.back() != int64_t(positions.size())) {
      return createStringError("expects query_offsets of " + Twine(what) + " from 0 to the number of positions (" +
                               Twine(positions.size()) + "), one more than sequences (" + Twine(ids.size()) + ")");
    }
    std::vector<int32_t> rows;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (offsets[i + 1] < offsets[i]) {
        return createStringError("expects query_offsets of " + Twine(what) + " that do not decrease, but got " +
                                 Twine(offsets[i + 1]) + " after " + Twine(offsets[i]));
      }
      rows.push_back(offsets[i + 1] - offsets[i]);
      sequences = std::max<int64_t>(sequences, std::min<int64_t>(ids[i], 1 << 20) + 1);
    }
    kvc_batch_t *batch;
    if (kvc_batch_create(device, ids.size(), ids.data(), rows.data(), positions.data(), &batch) != KVC_OK) {
      return runtimeError();
    }
    batches.emplace_back(batch);
    argument.batch = batch;
    return Error::success();
  }

  kvc_device_t *device;
  kvc_module_t *module;
  size_t function;
  ArrayRef<NpyArray> inputs;
  size_t taken = 0;
  int64_t sequences = 0;
  std::vector<kvc_argument_t> arguments;
  // Arguments point into these while they grow: a deque keeps its elements in place.
  std::deque<std::vector<char>> storage;
  std::deque<std::vector<int64_t>> shapes;
  std::vector<runtime::BatchHandle> batches;
  std::vector<runtime::CacheHandle> caches;
};
} // namespace

static Expected<NpyArray> arrayOf(const kvc_tensor_t &tensor) {
  NpyArray array;
  array.shape.assign(tensor.dims, tensor.dims + tensor.rank);
  int64_t count = 1;
  for (int64_t size : array.shape) {
    count *= size;
  }
  if (tensor.dtype == KVC_BF16) {
    // NumPy has no bf16; f32 holds every value.
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, static_cast<const char *>(tensor.data) + 2 * i, 2);
      values.push_back(bit_cast<float>(uint32_t(bits) << 16));
    }
    return NpyArray::ofFloats(array.shape, values, 4);
  }
  array.kind = kindOf(tensor.dtype);
  array.itemBytes = kvc_dtype_size(tensor.dtype);
  array.bytes.resize(count * array.itemBytes);
  if (!array.bytes.empty()) {
    std::memcpy(array.bytes.data(), tensor.data, array.bytes.size());
  }
  return array;
}

std::vector<std::string> kvc::targetsOf(const kvc_device_t *device, const std::string &forced) {
  if (!forced.empty()) {
    return {forced};
  }
  // Later rows of a family are better. A CPU may have been told to do with less than it has: its best row is chosen
  // elsewhere.
  std::string best;
  for (const Target &target : getTargets()) {
    if (target.team && kvc_device_supports(device, target.name.data()) == KVC_OK) {
      best = target.name.str();
    }
  }
  return best.empty() ? std::vector<std::string>() : std::vector{best};
}

Expected<DeviceResults> kvc::runOnDevice(kvc_device_t *device, kvc_module_t *module, StringRef name,
                                         ArrayRef<NpyArray> inputs, const DeviceRunOptions &options) {
  size_t function, count;
  if (kvc_module_find_function(module, name.str().c_str(), &function) != KVC_OK ||
      kvc_module_result_count(module, function, &count) != KVC_OK) {
    return runtimeError();
  }
  Call call(device, module, function, inputs);
  if (Error error = call.build(options)) {
    return std::move(error);
  }
  std::vector<kvc_value_t *> raw(count);
  kvc_status_t status = kvc_module_call(module, function, call.get().data(), call.get().size(), raw.data(), raw.size());
  if (status != KVC_OK) {
    return runtimeError();
  }
  std::vector<runtime::ValueHandle> values(raw.begin(), raw.end());
  DeviceResults results;
  for (const runtime::ValueHandle &value : values) {
    int64_t integer;
    float real;
    kvc_tensor_t tensor;
    switch (kvc_value_kind(value.get())) {
    case KVC_INTEGER:
      if (kvc_value_integer(value.get(), &integer) != KVC_OK) {
        return runtimeError();
      }
      results.arrays.push_back(NpyArray::ofInts({}, {integer}, 8));
      break;
    case KVC_REAL:
      if (kvc_value_real(value.get(), &real) != KVC_OK) {
        return runtimeError();
      }
      results.arrays.push_back(NpyArray::ofFloats({}, {real}, 4));
      break;
    case KVC_TENSOR: {
      if (kvc_value_tensor(value.get(), &tensor) != KVC_OK) {
        return runtimeError();
      }
      Expected<NpyArray> array = arrayOf(tensor);
      if (!array) {
        return array.takeError();
      }
      results.arrays.push_back(std::move(*array));
      break;
    }
    default:
      ++results.caches;
    }
  }
  return results;
}

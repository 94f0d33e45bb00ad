//===- Executor.h - Runs a function of a module -----------------*- C++ -*-===//
//
// Binds arguments, walks the steps of a plan (docs/contracts/kernel-abi.md,
// section 4) and hands the results over.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_EXECUTOR_H
#define KVC_CORE_EXECUTOR_H

#include "core/Module.h"

namespace kvc::rt {

/// One value that a caller gives. Tensors are row major and contiguous; their
/// memory must stay as it is until the call returns.
struct Argument {
  enum class Kind { tensor, cache, batch, integer, real };
  Kind kind = Kind::tensor;
  fb::DType dtype = fb::DType::f32;
  std::vector<int64_t> dims;
  const void *data = nullptr;
  std::shared_ptr<Cache> cache;
  std::shared_ptr<Batch> batch;
  int64_t integer = 0;
  float real = 0;
};

/// One value that a call returns. Tensors lie in host memory that the result
/// owns.
struct CallResult {
  Argument::Kind kind = Argument::Kind::tensor;
  fb::DType dtype = fb::DType::f32;
  std::vector<int64_t> dims;
  Temporary buffer; ///< device memory that the host can read
  Memory host;      ///< or a copy of it
  std::shared_ptr<Cache> cache;
  int64_t integer = 0;
  float real = 0;

  const void *data() const { return buffer ? buffer.data() : host.data(); }
};

/// Runs function `function` of the module. Arguments stand in the order of the
/// function's. What fails before the first change (wrong arguments, a pool that
/// cannot hold the new slots) leaves every cache as it was; after that the
/// sequences of the batch are marked and must be freed.
Status run(const std::shared_ptr<Module> &module, size_t function, const std::vector<Argument> &arguments,
           std::vector<CallResult> &results);

} // namespace kvc::rt

#endif // KVC_CORE_EXECUTOR_H

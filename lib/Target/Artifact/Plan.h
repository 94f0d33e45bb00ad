//===- Plan.h - A plan before it is written ---------------------*- C++ -*-===//
//
// The tables of runtime/schema/kvca.fbs as plain structures, so that plans of
// different targets can be compared and shared.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_TARGET_ARTIFACT_PLAN_H
#define KVC_LIB_TARGET_ARTIFACT_PLAN_H

#include "artifact/kvca_generated.h"
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Target/Backend.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace kvc::plan {

struct Expr {
  fb::ExprOp op = fb::ExprOp::constant;
  int32_t a = -1, b = -1;
  int64_t value = 0;
  bool operator==(const Expr &) const = default;
};

struct Dim {
  int64_t size = -1;
  int32_t expr = -1;
  bool operator==(const Dim &) const = default;
};

/// A value of any kind; fields of other kinds keep their defaults.
struct Value {
  fb::ValueType kind = fb::ValueType::Tensor;
  fb::DType dtype = fb::DType::i8;
  std::vector<Dim> dims;
  fb::TensorSource source = fb::TensorSource::buffer;
  int32_t constant = -1;
  std::string weight;
  uint32_t weightType = 0;
  uint64_t weightBytes = 0;
  int32_t base = -1, offset = -1;
  uint32_t spec = 0;
  int32_t expr = -1;
  bool operator==(const Value &) const = default;
};

struct Port {
  std::string name;
  uint32_t value = 0;
  std::string irType;
  bool operator==(const Port &) const = default;
};

struct Step {
  fb::Action action = fb::Action::Dispatch;
  uint32_t kernel = 0;
  std::vector<uint32_t> operands;
  int32_t items = -1;
  uint32_t cache = 0, batch = 0, result = 0;
  fb::ReserveMode mode = fb::ReserveMode::append;
  int32_t source = -1, destination = -1;
  int32_t lengths = -1, limit = -1;
  std::vector<uint32_t> free;
  bool operator==(const Step &) const = default;
};

struct Check {
  uint32_t step = 0;
  fb::Relation relation = fb::Relation::equal;
  int32_t left = -1, right = -1;
  std::string text;
  bool operator==(const Check &) const = default;
};

struct Function {
  std::string name;
  std::vector<Expr> exprs;
  std::vector<Value> values;
  std::vector<Port> arguments, results;
  std::vector<Step> steps;
  std::vector<Check> checks;
  bool operator==(const Function &) const = default;
};

/// What the functions of a module share: cache types and constants, in the order of their first use.
struct Tables {
  std::vector<kvcache::CacheType> caches;
  std::vector<std::string> constants;
  uint32_t specOf(kvcache::CacheType type);
  uint32_t constantOf(std::string bytes);
};

/// The artifact's name of an element type; a diagnostic at `op` where it has none.
llvm::FailureOr<fb::DType> dtypeOf(mlir::Operation *op, mlir::Type type);

/// The elements of a constant as they lie in an artifact: row major, an i1 in a byte.
std::string bytesOf(mlir::DenseElementsAttr elements);

/// The plan of a host function. `kernels` gives the index of a kernel by the name of its function. Fails with a
/// diagnostic at an operation that a plan cannot hold.
llvm::FailureOr<Function> buildFunction(mlir::func::FuncOp function, const llvm::StringMap<uint32_t> &kernels,
                                        Tables &tables);

} // namespace kvc::plan

#endif // KVC_LIB_TARGET_ARTIFACT_PLAN_H

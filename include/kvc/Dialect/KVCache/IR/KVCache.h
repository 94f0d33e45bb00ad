//===- KVCache.h - The kvcache dialect --------------------------*- C++ -*-===//
//
// Types, attributes and operations of the kvcache dialect, and its table of storage formats.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DIALECT_KVCACHE_IR_KVCACHE_H
#define KVC_DIALECT_KVCACHE_IR_KVCACHE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/TilingInterface.h"

#include "KVCache/KVCacheDialect.h.inc"
#include "KVCache/KVCacheEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "KVCache/KVCacheAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "KVCache/KVCacheTypes.h.inc"

namespace kvc::kvcache {

/// One storage format: a row of the table in Formats.cpp. docs/spec/formats.md defines the bits.
struct FormatRow {
  llvm::StringLiteral name;
  enum class Kind { F32, F16, BF16, Integer } kind;
  /// Bits of an element or code.
  int64_t bits;
  /// Codes that share one packed unit along the reduction dimension, and the unit's bytes.
  int64_t codesPerUnit;
  int64_t unitBytes;
};

/// All storage formats.
llvm::ArrayRef<FormatRow> getFormatTable();
/// The row of that name; null when there is none.
const FormatRow *lookupFormat(llvm::StringRef name);

/// The value of an integer attribute of an op. Must not be called while it still is a method's parameter.
int64_t getInt(mlir::Attribute attr);
/// The value, or `fallback` when the attribute is absent.
int64_t getIntOr(mlir::Attribute attr, int64_t fallback);

/// The value of a float attribute of an op, or `fallback` when it is absent. Must not be called while it still is a
/// method's parameter.
double getFloatOr(mlir::Attribute attr, double fallback);

/// The cache type of a cache or of its memory; null for anything else, such as the placeholder of a method.
CacheType getCacheType(mlir::Type type);

namespace op_detail {
/// The cache that an op changes in place once bufferised; its result is the same memory. Null for other ops.
mlir::OpOperand *getUpdatedCache(mlir::Operation *op);
/// Effects of an op on caches and dense values: none on values; reads, writes and allocations once bufferised.
void getValueOpEffects(mlir::Operation *op,
                       llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>> &effects);
mlir::Speculation::Speculatability getValueOpSpeculatability(mlir::Operation *op);
} // namespace op_detail

/// Whether a score region may hold `op`: the one list, for verifier and lowerings.
bool isAllowedInScoreRegion(mlir::Operation *op);

} // namespace kvc::kvcache

namespace kvc::kvcache {
// Declarations of some upstream interfaces name these without their namespace.
using mlir::FailureOr;
using mlir::Location;
using mlir::MergeResult;
using mlir::OpBuilder;
using mlir::ReductionTilingStrategy;
using mlir::SmallVector;
using mlir::TilingResult;
using mlir::Value;
using mlir::ValueRange;
} // namespace kvc::kvcache

#define GET_OP_CLASSES
#include "KVCache/KVCacheOps.h.inc"

#endif // KVC_DIALECT_KVCACHE_IR_KVCACHE_H

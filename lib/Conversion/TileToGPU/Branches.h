//===- Branches.h - Values that depend on a condition -----------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOGPU_BRANCHES_H
#define KVC_LIB_CONVERSION_TILETOGPU_BRANCHES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SmallVector.h"

namespace kvc {

using MakeValues = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ImplicitLocOpBuilder &)>;

/// Values that `yes` makes where a condition holds; else those of `no`.
llvm::SmallVector<mlir::Value> ifElse(mlir::ImplicitLocOpBuilder &b, mlir::TypeRange types, mlir::Value condition,
                                      MakeValues yes, MakeValues no);

/// Values that nobody reads.
llvm::SmallVector<mlir::Value> anyValues(mlir::ImplicitLocOpBuilder &b, mlir::TypeRange types);

/// `bytes` bytes of memory as a vector, or zeros where `valid` (null: always) does not hold.
mlir::Value loadIf(mlir::ImplicitLocOpBuilder &b, mlir::Value valid, mlir::Value memory, mlir::Value at, int64_t bytes);

/// A value where a condition holds, else zeros.
mlir::Value orZeros(mlir::ImplicitLocOpBuilder &b, mlir::Value condition, mlir::Value value);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOGPU_BRANCHES_H

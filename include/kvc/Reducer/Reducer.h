//===- Reducer.h - Making failing modules small -----------------*- C++ -*-===//
//
// The pass kvc-reduction tries simplifications of a module (docs/reducing.md lists them) and keeps those after which
// the test program still exits with a status other than 0.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_REDUCER_REDUCER_H
#define KVC_REDUCER_REDUCER_H

#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <string>

namespace kvc::reducer {

/// One way to simplify a module.
struct Reduction {
  llvm::StringLiteral name;
  /// Applies the candidate number `index` to the module; false when there are no more than `index` candidates. What it
  /// makes need not be valid: the caller verifies.
  bool (*apply)(mlir::ModuleOp module, int64_t index);
};

/// All reductions, those that remove most first.
llvm::ArrayRef<Reduction> getReductions();
/// Those of types: formats, pages, heads, channels.
llvm::ArrayRef<Reduction> getTypeReductions();

/// Registers the pass kvc-reduction.
void registerReductionPass();

} // namespace kvc::reducer

#endif // KVC_REDUCER_REDUCER_H

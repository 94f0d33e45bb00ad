//===- Passes.h - Conversion passes -----------------------------*- C++ -*-===//
#ifndef KVC_CONVERSION_PASSES_H
#define KVC_CONVERSION_PASSES_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kvc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kvc/Conversion/Passes.h.inc"
} // namespace kvc

#endif // KVC_CONVERSION_PASSES_H

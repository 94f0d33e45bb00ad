//===- Products.h - What register-blocked products share --------*- C++ -*-===//
#ifndef KVC_LIB_CONVERSION_TILETOVECTOR_PRODUCTS_H
#define KVC_LIB_CONVERSION_TILETOVECTOR_PRODUCTS_H

#include "PageOperand.h"

namespace kvc {

/// The register block of a product.
struct RegisterBlock {
  mlir::Value firstRow, firstLaneBlock; // index
  int64_t rows, laneBlocks;

  mlir::Value row(mlir::ImplicitLocOpBuilder &b, int64_t r) const { return add(b, firstRow, indexOf(b, r)); }
  mlir::Value laneBlock(mlir::ImplicitLocOpBuilder &b, int64_t n) const {
    return add(b, firstLaneBlock, indexOf(b, n));
  }
  /// The first column of lane block `n`.
  mlir::Value column(mlir::ImplicitLocOpBuilder &b, const TileEmitter &emitter, int64_t n) const {
    return mul(b, laneBlock(b, n), emitter.lanes);
  }
};

/// Walks a rows x lane blocks result in register blocks.
void forBlocks(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, int64_t rows, int64_t laneBlocks,
               llvm::function_ref<void(mlir::ImplicitLocOpBuilder &, const RegisterBlock &)> body);
/// The same for operands that know addresses of each lane block: `body` gets the number of the first one as well.
void forKeyBlocks(mlir::ImplicitLocOpBuilder &b, TileEmitter &emitter, int64_t rows, int64_t laneBlocks,
                  llvm::function_ref<void(mlir::ImplicitLocOpBuilder &, const RegisterBlock &, int64_t)> body);

/// for i = begin .. end - 1, carrying a register block.
llvm::SmallVector<mlir::Value>
carry(mlir::ImplicitLocOpBuilder &b, mlir::Value begin, mlir::Value end, llvm::ArrayRef<mlir::Value> init,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ImplicitLocOpBuilder &, mlir::Value, mlir::ValueRange)>
          body);

/// The first operand of a product: f32 elements, or pairs of bf16 as words.
struct Broadcasts {
  mlir::Value memory;
  bool pairs;
  TileEmitter &emitter;

  mlir::Value at(mlir::ImplicitLocOpBuilder &b, mlir::Value row, mlir::Value column) const;
};

// Products with codes (CodeProducts.cpp).

/// result[r, s] = sum over channels of a[r, c] * key[s, c]; `sums` are those of `a` over groups of channels.
void emitCodeScores(TileEmitter &emitter, tile::MmaOp op, const PageOperand &keys, mlir::Value a, mlir::Value sums,
                    mlir::Value result);
/// acc[r, c] += sum over slots < count of a[r, s] * value[s, c], in place.
void emitCodeOutput(TileEmitter &emitter, tile::MmaOp op, const PageOperand &values, mlir::Value a, mlir::Value acc);

} // namespace kvc

#endif // KVC_LIB_CONVERSION_TILETOVECTOR_PRODUCTS_H

//===- DecomposeAttention.cpp - attention to online_attention ------------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Dialect/KVCache/Transforms/Passes.h"

using namespace mlir;

namespace kvc {
#define GEN_PASS_DEF_DECOMPOSEATTENTIONPASS
#include "kvc/Dialect/KVCache/Transforms/Passes.h.inc"
} // namespace kvc

namespace {

struct DecomposeAttentionPass : kvc::impl::DecomposeAttentionPassBase<DecomposeAttentionPass> {
  void runOnOperation() override {
    SmallVector<kvc::kvcache::AttentionOp> ops;
    getOperation()->walk([&](kvc::kvcache::AttentionOp op) { ops.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (kvc::kvcache::AttentionOp op : ops) {
      rewriter.setInsertionPoint(op);
      // What does not decompose has said why in a remark.
      if (FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter); succeeded(results)) {
        rewriter.replaceOp(op, *results);
      }
    }
  }
};

} // namespace

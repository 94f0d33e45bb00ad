//===- Llama.h - The Llama architecture -------------------------*- C++ -*-===//
//
// What the metadata of a Llama model say, and the steps of its import.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_LIB_IMPORT_LLAMA_H
#define KVC_LIB_IMPORT_LLAMA_H

#include "gguf/File.h"
#include "kvc/Import/GGUF.h"
#include "mlir/Support/LLVM.h"

namespace kvc::import {

/// Sizes and constants of a model. All sizes are at least 1.
struct LlamaConfig {
  int64_t layers = 0;
  int64_t width = 0; ///< of the residual stream
  int64_t ffn = 0;   ///< of the feed-forward layer
  int64_t heads = 0, kvHeads = 0;
  int64_t keyDim = 0, valueDim = 0; ///< channels of a head
  int64_t vocabulary = 0;
  int64_t context = 0;
  double normEpsilon = 0;
  double ropeBase = 0;
  int64_t ropeDims = 0;
  bool tiedOutput = false; ///< the output matrix is the embedding table
};

/// Reads `llama.*` and checks that the file holds exactly the tensors of such a model, in their shapes and in types
/// that can be decoded.
mlir::FailureOr<LlamaConfig> readLlamaConfig(const gguf::File &file, mlir::Location loc);

/// Builds the module of a file that readLlamaConfig accepted.
mlir::OwningOpRef<mlir::ModuleOp> buildLlamaGraph(const gguf::File &file, const LlamaConfig &config,
                                                  const GGUFImportOptions &options, mlir::Location loc);

/// "blk.<layer>.<part>.weight"
std::string layerTensor(int64_t layer, llvm::StringRef part);

} // namespace kvc::import

#endif // KVC_LIB_IMPORT_LLAMA_H

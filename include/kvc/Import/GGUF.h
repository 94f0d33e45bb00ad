//===- GGUF.h - Model files to MLIR -----------------------------*- C++ -*-===//
//
// Builds the graph of a language model from its GGUF file: func, linalg,
// tensor, arith and math, with attention sites and weights of the kvcache
// dialect. docs/contracts/model-graph.md gives its form.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_IMPORT_GGUF_H
#define KVC_IMPORT_GGUF_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace kvc {

namespace gguf {
class File;
} // namespace gguf

struct GGUFImportOptions {
  /// Fields of the type of every layer's cache after `heads` and `dim`, in the assembly of !kvcache.cache.
  std::string cache = "page = 16, k = f16, v = f16";
};

/// The module of a dense Llama-architecture model; null after a diagnostic at the file's location. Errors: an
/// architecture, metadata key, tensor or tensor type that is not understood; tensors that are absent or of another
/// shape than the metadata say; a cache type that does not parse. The weights stay in the file.
mlir::OwningOpRef<mlir::ModuleOp> importGGUF(const gguf::File &file, mlir::MLIRContext *context,
                                             const GGUFImportOptions &options = {});

/// The same for a path; a file that cannot be read is a diagnostic too.
mlir::OwningOpRef<mlir::ModuleOp> importGGUF(llvm::StringRef path, mlir::MLIRContext *context,
                                             const GGUFImportOptions &options = {});

} // namespace kvc

#endif // KVC_IMPORT_GGUF_H

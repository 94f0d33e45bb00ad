//===- Method.h - KV methods and how they enter a model ---------*- C++ -*-===//
//
// A KV method is a file that says what happens at an attention site; docs/adding-a-method.md describes its form.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_DIALECT_KVCACHE_TRANSFORMS_METHOD_H
#define KVC_DIALECT_KVCACHE_TRANSFORMS_METHOD_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kvc {

struct MethodOptions {
  /// The name of a method, or the path of its file.
  std::string method = "dense";
  /// `name=value`, or `name=a/b/c` with a value for each layer.
  std::vector<std::string> args;
  /// Searched before `getMethodFolders()`.
  std::vector<std::string> folders;
  /// Fields of the cache type that the user chose. A method that needs other values for them is an error.
  std::vector<std::string> chosen;
};

/// Where the methods that come with kvc lie: beside an installed program or library, or in the source tree of a build.
std::vector<std::string> getMethodFolders();

/// The names of all methods in `folders` and the built-in folders, sorted.
std::vector<std::string> listMethods(llvm::ArrayRef<std::string> folders = {});

/// Replaces every `kvcache.attend` of `graph`; see the pass kvc-splice-method. Errors, as diagnostics: a method that is
/// not found or not well formed; arguments that it does not have or of another type; a site that it does not fit.
llvm::LogicalResult spliceMethod(mlir::ModuleOp graph, const MethodOptions &options);

} // namespace kvc

#endif // KVC_DIALECT_KVCACHE_TRANSFORMS_METHOD_H

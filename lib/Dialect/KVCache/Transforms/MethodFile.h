//===- MethodFile.h - A KV method as it was read ----------------*- C++ -*-===//
#ifndef KVC_LIB_DIALECT_KVCACHE_TRANSFORMS_METHODFILE_H
#define KVC_LIB_DIALECT_KVCACHE_TRANSFORMS_METHODFILE_H

#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace kvc {

/// A method with values for its parameters.
class MethodFile {
public:
  /// Reads and checks a method; errors at `at` when there is no such file, else at its lines.
  static llvm::FailureOr<MethodFile> load(mlir::Location at, llvm::StringRef method,
                                          llvm::ArrayRef<std::string> folders);

  /// Gives parameters other values than their defaults (`name=value`). `layers`: the number of layers of the model.
  llvm::LogicalResult bind(mlir::Location at, llvm::ArrayRef<std::string> args, int64_t layers);

  llvm::StringRef name() const { return id; }
  mlir::Location location() const { return (*module)->getLoc(); }
  mlir::ModuleOp getModule() const { return *module; }

  /// The value of a parameter, given or derived, in a layer; null when the method has none of that name.
  mlir::Attribute parameter(llvm::StringRef name, int64_t layer) const;

  /// The fields of the cache type that the method needs in a layer, in the assembly of the type; may be empty.
  std::string cacheFields(int64_t layer) const { return expand(cacheText, layer); }

  /// Whether the method acts on a layer.
  bool actsOn(int64_t layer) const;

  /// Whether it leaves any layer to another method.
  bool namesLayers() const { return !layersText.empty(); }

  /// The function of a phase; null when it has none.
  mlir::func::FuncOp functionOf(llvm::StringRef phase) const;

private:
  llvm::LogicalResult check();
  llvm::LogicalResult checkFunction(mlir::func::FuncOp function);
  llvm::LogicalResult checkParameters();
  llvm::LogicalResult checkLayers() const;
  /// Some layer of the model has the method.
  llvm::LogicalResult checkActs(int64_t layers) const;
  llvm::LogicalResult checkDerived(int64_t layers) const;
  /// `text` with `$name` replaced by the parameter's value.
  std::string expand(llvm::StringRef text, int64_t layer) const;

  std::string id;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string cacheText, layersText;
  /// Arithmetic over parameters, by the name of the parameter that it gives.
  llvm::StringMap<std::string> derived;
  /// One value, or one for each layer.
  llvm::StringMap<llvm::SmallVector<mlir::Attribute, 1>> values;
};

} // namespace kvc

#endif // KVC_LIB_DIALECT_KVCACHE_TRANSFORMS_METHODFILE_H

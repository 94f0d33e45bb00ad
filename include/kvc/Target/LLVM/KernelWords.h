//===- KernelWords.h - Arguments of kernels as words ------------*- C++ -*-===//
//
// docs/contracts/kernel-abi.md: an argument of a kernel is one word, or, for a buffer, the word of its address and one
// for each size that is not static. How a word is read is the back end's.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_LLVM_KERNELWORDS_H
#define KVC_TARGET_LLVM_KERNELWORDS_H

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kvc {

/// Reads the words of a kernel's arguments in order.
class KernelWords {
public:
  KernelWords(mlir::ImplicitLocOpBuilder &b, const mlir::LLVMTypeConverter &types) : b(b), types(types) {}
  virtual ~KernelWords() = default;

  /// The next argument, of a type that a kernel can have.
  mlir::Value argument(mlir::Type type);
  /// A contiguous buffer at `base`; sizes that are not static are the next words.
  mlir::Value descriptor(mlir::MemRefType type, mlir::Value base);

protected:
  /// The next word as a value of `type`: a pointer, i64, i32 or f32.
  virtual mlir::Value next(mlir::Type type) = 0;

  mlir::ImplicitLocOpBuilder &b;

private:
  mlir::Value constant(int64_t value);

  const mlir::LLVMTypeConverter &types;
};

/// The kernels of a module, after a check that each has a body, no results, arguments that are words and the item as
/// the last of them. Failure comes with a diagnostic.
llvm::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> collectKernels(mlir::ModuleOp module);

/// Makes the kernel's function private and its name `NAME.body`. Returns NAME.
std::string renameToBody(mlir::func::FuncOp kernel);

} // namespace kvc

#endif // KVC_TARGET_LLVM_KERNELWORDS_H

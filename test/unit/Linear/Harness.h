//===- Harness.h - Compiles the kernels of a host function and runs them --===//
#ifndef KVC_TEST_UNIT_LINEAR_HARNESS_H
#define KVC_TEST_UNIT_LINEAR_HARNESS_H

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"

namespace kvc::test {

/// A row-major array as kernels see it: the descriptor of a memref.
class Memref {
public:
  template <typename T> Memref(T *data, std::vector<int64_t> shape) {
    words = {int64_t(data), int64_t(data), 0};
    words.insert(words.end(), shape.begin(), shape.end());
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) {
      strides[i - 1] = strides[i] * shape[i];
    }
    words.insert(words.end(), strides.begin(), strides.end());
  }
  void *descriptor() { return words.data(); }

private:
  std::vector<int64_t> words;
};

/// The one kernel that a host function becomes, as code for this machine but with the vectors of `target`.
class Kernel {
public:
  Kernel(const std::string &hostFunction, llvm::StringRef target) {
    static bool once = [] {
      registerAllPasses();
      llvm::InitializeNativeTarget();
      llvm::InitializeNativeTargetAsmPrinter();
      return true;
    }();
    (void)once;
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    mlir::registerBuiltinDialectTranslation(registry);
    mlir::registerLLVMDialectTranslation(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = mlir::parseSourceString<mlir::ModuleOp>(hostFunction, &context);
    if (!module) {
      ADD_FAILURE() << "the host function does not parse";
      return;
    }
    (*module)->setAttr(tile::TileDialect::targetAttr, mlir::StringAttr::get(&context, target));
    if (!run("kvc-form-dispatches,kvc-convert-linear-to-vector")) {
      return;
    }
    for (auto function : llvm::make_early_inc_range(module->getOps<mlir::func::FuncOp>())) {
      if (!function->hasAttr(tile::TileDialect::kernelAttr)) {
        function.erase();
        continue;
      }
      EXPECT_TRUE(name.empty()) << "one kernel was expected, but there are " << name << " and "
                                << function.getSymName().str();
      name = function.getSymName().str();
      function->setAttr("llvm.emit_c_interface", mlir::UnitAttr::get(&context));
    }
    if (!run("func.func(convert-vector-to-scf),canonicalize,cse,expand-strided-metadata,lower-affine,"
             "math-expand-ops{ops=rsqrt},arith-expand{include-bf16=true},convert-scf-to-cf,"
             "convert-vector-to-llvm{reassociate-fp-reductions=true force-32bit-vector-indices=false},"
             "finalize-memref-to-llvm,convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,"
             "convert-index-to-llvm,convert-cf-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts,canonicalize")) {
      return;
    }
    auto optimize = mlir::makeOptimizingTransformer(2, 0, nullptr);
    mlir::ExecutionEngineOptions options;
    options.transformer = optimize;
    auto made = mlir::ExecutionEngine::create(*module, options);
    if (!made) {
      ADD_FAILURE() << llvm::toString(made.takeError());
      return;
    }
    engine = std::move(*made);
  }

  explicit operator bool() const { return engine != nullptr; }

  /// Runs work items 0 .. items - 1.
  void operator()(std::vector<Memref> arguments, int64_t items) {
    std::vector<void *> descriptors;
    for (Memref &argument : arguments) {
      descriptors.push_back(argument.descriptor());
    }
    for (int64_t item = 0; item < items; ++item) {
      llvm::SmallVector<void *> packed;
      for (void *&descriptor : descriptors) {
        packed.push_back(&descriptor);
      }
      packed.push_back(&item);
      if (llvm::Error error = engine->invokePacked("_mlir_ciface_" + name, packed)) {
        ADD_FAILURE() << llvm::toString(std::move(error));
        return;
      }
    }
  }

private:
  bool run(llvm::StringRef pipeline) {
    mlir::PassManager pm(&context);
    bool good = succeeded(mlir::parsePassPipeline(pipeline, pm)) && succeeded(pm.run(*module));
    EXPECT_TRUE(good) << "the pipeline failed: " << pipeline.str();
    return good;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string name;
  std::unique_ptr<mlir::ExecutionEngine> engine;
};

/// The bits of the nearest f16 number.
inline uint16_t toHalf(float value) {
  llvm::APFloat number(value);
  bool inexact;
  number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return uint16_t(number.bitcastToAPInt().getZExtValue());
}

/// Targets whose vectors differ in length.
inline constexpr llvm::StringLiteral targets[] = {"x86-64-v4", "x86-64-v3", "aarch64"};

} // namespace kvc::test

#endif // KVC_TEST_UNIT_LINEAR_HARNESS_H

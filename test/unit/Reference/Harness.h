//===- Harness.h - Runs modules from text on the oracle ---------*- C++ -*-===//
#ifndef KVC_TEST_UNIT_REFERENCE_HARNESS_H
#define KVC_TEST_UNIT_REFERENCE_HARNESS_H

#include "kvc/Reference/Reference.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>
#include <string>

namespace kvc::reference {

/// A context with the dialects of graphs that collects diagnostics as text.
class Oracle {
public:
  Oracle() {
    context.loadDialect<kvcache::KVCacheDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                        mlir::linalg::LinalgDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                        mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diag) {
      llvm::raw_string_ostream(errors) << diag << "\n";
      return mlir::success();
    });
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << errors;
    return module;
  }

  /// Results of function @f of the module; none when it fails, with the text in `errors`.
  llvm::SmallVector<Datum> run(llvm::StringRef text, llvm::ArrayRef<Datum> inputs, Options options = {}) {
    Evaluator evaluator(std::move(options));
    return runWith(evaluator, text, inputs);
  }

  llvm::SmallVector<Datum> runWith(Evaluator &evaluator, llvm::StringRef text, llvm::ArrayRef<Datum> inputs) {
    mlir::OwningOpRef<mlir::ModuleOp> module = parse(text);
    if (!module) {
      return {};
    }
    auto results = evaluator.call(module->lookupSymbol<mlir::func::FuncOp>("f"), inputs);
    return mlir::failed(results) ? llvm::SmallVector<Datum>() : *results;
  }

  /// An empty cache of a type given as text.
  Cache cache(llvm::StringRef type, int64_t sequences = 1, int64_t capacity = 64) {
    auto parsed = llvm::dyn_cast_or_null<kvcache::CacheType>(mlir::parseType(type, &context));
    EXPECT_TRUE(parsed) << errors;
    return Cache::empty(parsed, sequences, capacity);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::string errors;
};

/// A batch of one sequence with rows at consecutive positions.
inline Batch rowsAt(int64_t first, int64_t count, int64_t sequence = 0) {
  Batch batch{{0, count}, {sequence}, {}};
  for (int64_t i = 0; i < count; ++i) {
    batch.positions.push_back(first + i);
  }
  return batch;
}

/// Expects a tensor of that shape with those elements, to double precision; NaN equals NaN.
inline void expectTensor(const Datum &datum, std::vector<int64_t> shape, std::vector<double> want,
                         double tolerance = 1e-12) {
  ASSERT_TRUE(datum.isTensor());
  const Tensor &got = datum.asTensor();
  ASSERT_EQ(std::vector<int64_t>(got.shape.begin(), got.shape.end()), shape);
  ASSERT_EQ(got.floats.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i])) {
      EXPECT_NEAR(got.floats[i], want[i], tolerance) << "element " << i;
    } else {
      EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got.floats[i]) : got.floats[i] == want[i])
          << "element " << i << ": " << got.floats[i];
    }
  }
}

} // namespace kvc::reference

#endif // KVC_TEST_UNIT_REFERENCE_HARNESS_H

//===- Mutants.h - Compilers and oracles that are wrong ---------*- C++ -*-===//
//
// Tests of the test: with any of these the suite must fail.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_MUTANTS_H
#define KVC_TEST_DIFFERENTIAL_MUTANTS_H

#include "Kernel.h"

namespace kvc::differential {

struct KernelMutant {
  llvm::StringLiteral name, what;
  /// Changes one lowered kernel function; returns how many places.
  int64_t (*mutate)(mlir::Operation *kernel);
};
llvm::ArrayRef<KernelMutant> getKernelMutants();
/// The mutation of that name applied to all kernels whose name contains `kernel`; none when there is no such name.
std::optional<Mutation> getKernelMutation(llvm::StringRef name, std::string kernel);

struct OracleMutant {
  llvm::StringLiteral name, what;
  std::unique_ptr<reference::Evaluator> (*create)();
};
llvm::ArrayRef<OracleMutant> getOracleMutants();
/// The mutant of that name; the sound oracle when there is none.
std::unique_ptr<reference::Evaluator> createOracle(llvm::StringRef mutant);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_MUTANTS_H

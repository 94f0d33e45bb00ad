//===- Suite.h - The differential suite and its report ----------*- C++ -*-===//
#ifndef KVC_TEST_DIFFERENTIAL_SUITE_H
#define KVC_TEST_DIFFERENTIAL_SUITE_H

#include <cstdint>
#include <string>

namespace kvc::differential {

struct SuiteOptions {
  /// Runs at least; every kernel makes as many.
  int64_t runs = 1500;
  /// Distinct kernels at least; with a filter, at most.
  int64_t kernels = 150;
  uint64_t seed = 1;
  /// Processes that compile and run.
  int jobs = 1;
  /// The device that kernels run on, and the target that they are compiled for (empty: this machine's).
  std::string device = "cpu", target;
  /// Values that a kernel must have, `k=int4,op=evict`; without one, all pairs of the table must be met.
  std::string filter;
  /// Folder of compiled kernels; empty: the one of all tools.
  std::string cacheFolder;
  /// Names of a broken compiler, of the kernels it breaks, and of a broken oracle; empty: sound ones.
  std::string kernelMutant, mutatedKernel, oracleMutant;
  /// One case instead of the suite.
  std::string caseName;
  /// With one case: a folder of texts that stand for the kernel's assembly (for AMD's chips: of code objects), each in
  /// turn; a file that its own assembly is written to.
  std::string assemblyFolder, assemblyFile;
  /// With one case: a folder for its module and arrays, for kvc-run and kvc-reduce.
  std::string writeFolder;
  /// A written case, or what kvc-reduce made of it, and the folder of its arrays.
  std::string replayFile, arrayFolder;
  /// A folder for one run of each kernel that passes, with its artifact for `recordTargets` (comma-separated; empty:
  /// the target). Every kernel then makes one run.
  std::string recordFolder, recordTargets;
  bool list = false;
  /// A line for each kernel, with the seconds it took.
  bool verbose = false;
};

/// Prints the report; the last line is `N passed, N failed, N skipped`. True when nothing failed.
bool runSuite(const SuiteOptions &options);

/// One case, alone. True when it passes.
bool runCase(const SuiteOptions &options);

/// Several cases of one kernel, named with `;` between them, with every text of a folder in place of the kernel's
/// assembly: prints a line for each, its name and what went wrong or the hash of the results. True when all could be
/// run.
bool runAssemblies(const SuiteOptions &options);

/// Whether the mutants that are asked for exist; says which there are when not.
bool checkMutants(const SuiteOptions &options);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_SUITE_H

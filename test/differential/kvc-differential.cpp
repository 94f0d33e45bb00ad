//===- kvc-differential.cpp - Kernels against the oracle, by seed ---------===//
#include "Replay.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <unistd.h>

int main(int argc, char **argv) {
  CLI::App app{"Runs generated kernels beside the reference oracle and compares every result.\n"
               "Exit status: 0, or 1 when a run fails or a legal pair of axis values is not met."};
  kvc::differential::SuiteOptions options;
  // Set by utils/test --long.
  options.runs = std::getenv("KVC_LONG_TESTS") ? 12000 : 1500;
  options.jobs = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const CLI::Option *runs =
      app.add_option("--runs", options.runs, "runs at least; with --filter: by default all shapes of each kernel")
          ->check(CLI::Range(1, 1 << 30))
          ->capture_default_str();
  const CLI::Option *kernels =
      app.add_option("--kernels", options.kernels, "distinct kernels at least; with --filter: at most, by default 24")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
  app.add_option("--seed", options.seed, "another seed, other kernels and data")->capture_default_str();
  app.add_option("--jobs", options.jobs, "processes at a time")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--device", options.device, "the device to run on")->capture_default_str();
  app.add_option("--target", options.target, "the target to compile for (default: the best of this machine)");
  app.add_option("--filter", options.filter, "only kernels with these values, as k=int4,op=evict");
  app.add_option("--cache", options.cacheFolder, "folder of compiled kernels (default: that of kvc-compile)");
  app.add_option("--case", options.caseName, "run one case, by the name that a failure prints");
  app.add_option("--write-assembly", options.assemblyFile, "with --case: write the kernel's assembly to this file");
  app.add_option("--assemblies", options.assemblyFolder,
                 "with --case: run it (or several of one kernel, 'a;b') with every file of this folder in place of the "
                 "kernel's assembly (AMD: code object), and print what comes of each");
  app.add_option("--write-module", options.writeFolder,
                 "with --case: write its module and arrays into this folder, for kvc-run and kvc-reduce");
  app.add_option("--record", options.recordFolder,
                 "one run of each of at most --kernels kernels; write those that pass, with their kernels, into this "
                 "folder");
  app.add_option("--record-targets", options.recordTargets,
                 "comma-separated targets of recorded kernels (default: the target)");
  app.add_option(
      "--replay", options.replayFile,
      "run a written module, or what kvc-reduce made of it; exit status 1: results differ, 2: anything else");
  app.add_option("--arrays", options.arrayFolder, "with --replay: the folder that --write-module filled");
  app.add_flag("--list", options.list, "print the axes with their values");
  app.add_flag("--verbose", options.verbose, "print a line for each kernel, with the seconds it took");
  app.add_option("--mutate-kernel", options.kernelMutant, "test of the test: break the lowered kernels in this way");
  app.add_option("--mutated-kernel", options.mutatedKernel, "which kernels to break, by a part of their names");
  app.add_option("--mutate-oracle", options.oracleMutant, "test of the test: break the oracle in this way");
  CLI11_PARSE(app, argc, argv);
  if (!options.filter.empty() || !options.recordFolder.empty()) {
    options.kernels = kernels->count() ? options.kernels : 24;
    options.runs = runs->count() ? options.runs : 1;
  }
  if (!options.replayFile.empty()) {
    return static_cast<int>(kvc::differential::checkMutants(options) ? kvc::differential::replay(options)
                                                                     : kvc::differential::ReplayStatus::other);
  }
  const bool passed = options.caseName.empty()         ? kvc::differential::runSuite(options)
                      : options.assemblyFolder.empty() ? kvc::differential::runCase(options)
                                                       : kvc::differential::runAssemblies(options);
  return passed ? 0 : 1;
}

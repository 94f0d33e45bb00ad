//===- kvc-run.cpp - Runs modules -----------------------------------------===//
#include "Module.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  CLI::App app{"Runs what kvc compiles."};
  app.require_subcommand(1);

  kvc::ModuleRun run;
  CLI::App *module = app.add_subcommand("module", "runs one function of a module on arrays");
  module->add_option("file", run.file, "the module (.mlir, text or bytecode)")->required();
  module->add_option("--function", run.function, "the function to run")->required();
  module
      ->add_option("--inputs", run.inputs,
                   "comma-separated .npy files in the order of the arguments: one for a tensor or a scalar, three for "
                   "a !kvcache.batch (query_offsets, sequences, positions), none for a !kvcache.cache, which starts "
                   "empty")
      ->delimiter(',');
  module
      ->add_option("--outputs", run.outputs,
                   "comma-separated .npy files for the tensors and scalars among the results, in order")
      ->delimiter(',');
  module->add_flag("--reference", run.reference, "run on the reference oracle, in double precision");
  module->add_option("--sequences", run.sequences, "sequences of each cache (default: those of the batches)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 20));
  module->add_option("--capacity", run.capacity, "slots that each table of a cache can hold")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  module->add_flag("--f64", run.wide, "with --reference: write floating point results as they are, in f64");

  CLI11_PARSE(app, argc, argv);
  return kvc::runModule(run) ? 0 : 1;
}

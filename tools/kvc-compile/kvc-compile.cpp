//===- kvc-compile.cpp - Modules to artifacts -----------------------------===//
#include "../CommandLine.h"
#include "Compile.h"

int main(int argc, char **argv) {
  CLI::App app{"Compiles a module (.mlir, text or bytecode) to an artifact (.kvca) that the kvc runtime runs.\n"
               "Exit status: 0, or 1 after an error."};
  kvc::CompileRun run;
  app.add_option("file", run.file, "the module; '-' reads standard input")->required();
  app.add_option("-o,--output", run.output,
                 "where to write ('-': standard output; default for artifacts: the file's "
                 "name with .kvca, for text: standard output)");
  app.add_option("--target", run.targets, "comma-separated targets (default: the best of this machine)")
      ->delimiter(',')
      ->take_all();
  app.add_option("--emit", run.emit, "what to write")
      ->check(CLI::IsMember({"mlir", "tile", "vector", "llvm", "asm", "ptx", "object", "artifact"}))
      ->capture_default_str();
  app.add_option("--cache", run.model.cacheFolder,
                 "folder of compiled kernels and artifacts (default: ${XDG_CACHE_HOME:-~/.cache}/kvc)");
  app.add_flag("--no-cache", run.noCache, "compile every kernel anew and keep none");
  app.add_option("--reproducer-folder", run.reproducerFolder,
                 "where a failing pass leaves a file for kvc-opt --run-reproducer (default: the folder for temporary "
                 "files; 'none': no file is left)");
  app.add_flag("--remarks", run.remarks, "say on standard error what was picked for each kernel, and why");
  app.add_option("--kv", run.model.kv, "storage of a model's (.gguf) keys and values, as of kvc-run generate");
  app.add_option("--page-size", run.model.page, "slots of a page of a model's caches (default: 16, for kivi-* 32)")
      ->check(CLI::Range(1, 256));
  app.add_option("--method", run.model.method, "KV method of a model: a name, or a file (.mlir)")
      ->capture_default_str();
  app.add_option("--method-arg", run.model.methodArgs, "value of a parameter of the method, k=v")->take_all();
  app.add_option("--linear-accuracy", run.model.linearAccuracy,
                 "of linear layers on GPUs: exact (as f32), fast (activations rounded to bf16)")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  if (std::optional<int> status = kvc::parseCommandLine(app, argc, argv)) {
    return *status;
  }
  return kvc::runCompile(run) ? 0 : 1;
}

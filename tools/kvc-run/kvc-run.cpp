//===- kvc-run.cpp - Runs modules -----------------------------------------===//
#include "Module.h"
#include "Tokenize.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  CLI::App app{"Runs what kvc compiles."};
  app.require_subcommand(1);

  kvc::ModuleRun run;
  CLI::App *module = app.add_subcommand("module", "runs one function of a module on arrays");
  module->add_option("file", run.file, "the module: .mlir (text or bytecode), or an artifact (.kvca)")->required();
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
  module->add_option("--device", run.device, "the device to run on")->capture_default_str();
  module->add_option("--threads", run.threads, "CPU threads (0: one per CPU that the process may use)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  module->add_option("--target", run.target, "the target that a .mlir module is compiled for (default: the best)");
  module->add_option("--cache-pages", run.cachePages, "pages of each cache's pool (0: every table can be full)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  module->add_flag("--json", run.json, "print what was run");
  module->add_flag("--f64", run.wide, "with --reference: write floating point results as they are, in f64");

  kvc::TokenizeRun tokenizeRun;
  CLI::App *tokenize = app.add_subcommand("tokenize", "text to token ids and back, with the tokenizer of a model");
  tokenize->add_option("model", tokenizeRun.model, "the model (.gguf)")->required();
  CLI::Option_group *source = tokenize->add_option_group("source");
  CLI::Option *text = source->add_option("--text", tokenizeRun.text, "the text");
  source->add_option("--text-file", tokenizeRun.textFile, "a file with the text");
  source->add_option("--ids", tokenizeRun.idsFile, "a JSON file with token ids: prints their text");
  source->require_option(1);
  tokenize->add_flag("--special", tokenizeRun.special, "texts of control tokens become those tokens");
  tokenize->add_flag("--chat", tokenizeRun.chat, "the text is a user's turn: use the model's chat template");
  tokenize->add_flag("--json", tokenizeRun.json, "print {\"ids\": [...]}, or {\"text\": ...} for --ids");

  CLI11_PARSE(app, argc, argv);
  if (tokenize->parsed()) {
    tokenizeRun.hasText = text->count() > 0;
    return kvc::runTokenize(tokenizeRun) ? 0 : 1;
  }
  return kvc::runModule(run) ? 0 : 1;
}

//===- kvc-run.cpp - Runs modules -----------------------------------------===//
#include "../CommandLine.h"
#include "Generate.h"
#include "Module.h"
#include "Tokenize.h"
#include "llvm/ADT/StringExtras.h"

/// Where a command runs.
static void addDeviceOptions(CLI::App *command, std::string &device, int &threads) {
  command->add_option("--device", device, "the device to run on")->capture_default_str();
  command->add_option("--threads", threads, "CPU threads (0: one per CPU that the process may use)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

static CLI::Option *addSimReport(CLI::App *command, bool &simReport) {
  return command->add_flag(
      "--sim-report", simReport,
      "print what the simulator (--device sim:<chip>) counted, kernel by kernel; with --json in it");
}

/// Options of every command that runs a model.
static void addModelOptions(CLI::App *command, kvc::LanguageModelOptions &model) {
  command->add_option("model", model.path, "the model (.gguf)")->required();
  command->add_option(
      "--kv", model.kv,
      "storage of keys and values: " + llvm::join(kvc::cacheSpellings(), ", ") +
          ", or K=FORMAT,V=FORMAT. int*: per token, asymmetric, groups of 32 channels; kivi-*: keys per channel, "
          "groups of 32, the newest 128 tokens exact (default: what the method needs, else f16)");
  command->add_option("--method", model.method, "KV method: a name, or a file (.mlir)")->capture_default_str();
  command->add_option("--method-arg", model.methodArgs, "value of a parameter of the method, k=v; may be given again");
  command->add_option("--page-size", model.page, "slots of a page (default: 16, for kivi-* 32)")
      ->check(CLI::Range(1, 256));
  command
      ->add_option("--linear-accuracy", model.linearAccuracy,
                   "of linear layers on GPUs: exact (as f32), fast (activations rounded to bf16)")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  addDeviceOptions(command, model.device, model.threads);
  command->add_option("--target", model.target, "the target to compile for (default: the best of this machine)");
  command->add_option("--cache", model.cacheFolder,
                      "folder of compiled kernels and artifacts (default: ${XDG_CACHE_HOME:-~/.cache}/kvc)");
}

static CLI::App *addGenerate(CLI::App &app, kvc::GenerateRun &run) {
  CLI::App *command = app.add_subcommand("generate", "continues a prompt with a language model");
  addModelOptions(command, run.model);
  CLI::Option_group *source = command->add_option_group("prompt");
  source->add_option_function<std::string>(
      "--prompt",
      [&](const std::string &text) {
        run.prompt = text;
        run.hasPrompt = true;
      },
      "the prompt");
  CLI::Option *promptFile =
      source->add_option("--prompt-file", run.promptFile, "a file with the prompt; with --batch one prompt per line");
  source->add_option("--ids", run.idsFile, "a JSON file with the prompt's token ids");
  source->require_option(1);
  command->add_flag("--chat", run.chat, "the prompt is a user's turn: use the model's chat template");
  command->add_flag("--batch", run.batch, "run all prompts of --prompt-file together")->needs(promptFile);
  command->add_option("--max-tokens", run.maxTokens, "tokens to generate at most")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 24))
      ->capture_default_str();
  command->add_option("--temperature", run.temperature, "sample with this temperature (0: the likeliest token)")
      ->check(kvc::finiteRange(0, 100))
      ->capture_default_str();
  command->add_option("--seed", run.seed, "of the sampling")->capture_default_str();
  command->add_flag("--graphs", run.model.graphs,
                    "replay the launches of decode steps as graphs (GPUs); --json then lists no dispatches");
  CLI::Option *asJson =
      command->add_flag("--json", run.json, "print one JSON object; on devices other than cpu it lists every dispatch");
  command
      ->add_flag("--table", run.table,
                 "print speed and size of the cache after the text (a terminal shows them anyway)")
      ->excludes(asJson);
  addSimReport(command, run.simReport);
  return command;
}

static CLI::App *addPerplexity(CLI::App &app, kvc::PerplexityRun &run) {
  CLI::App *command = app.add_subcommand("perplexity", "perplexity of a text, window by window from an empty cache");
  addModelOptions(command, run.model);
  CLI::Option_group *source = command->add_option_group("text");
  source->add_option("--text", run.textFile, "a file with the text");
  source->add_option("--ids", run.idsFile, "a JSON file with token ids");
  source->require_option(1);
  command->add_option("--window", run.window, "tokens of a window")
      ->required()
      ->check(CLI::Range(int64_t(2), int64_t(1) << 24));
  command->add_option("--windows", run.windows, "how many windows (default: all whole ones)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30));
  command
      ->add_option("--prompt-tokens", run.prompt,
                   "tokens of a window that come first, in one step, as a prompt does; what follows them is measured")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 24));
  command->add_option("--chunk", run.chunk, "tokens appended per step; 1 is exactly what decoding sees")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->capture_default_str();
  command->add_flag("--json", run.json, "print one JSON object");
  return command;
}

static CLI::App *addLogits(CLI::App &app, kvc::LogitsRun &run) {
  CLI::App *command = app.add_subcommand("logits", "logits at positions of a sequence of token ids");
  addModelOptions(command, run.model);
  command->add_option("--ids", run.idsFile, "a JSON file with token ids")->required();
  command->add_option("--positions", run.positions, "comma-separated positions")->required();
  command->add_option("-o,--output", run.output, "where to write them (.npy, f32, positions x vocabulary)")->required();
  command->add_option("--chunk", run.chunk, "tokens appended per step")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->capture_default_str();
  command->add_flag("--json", run.json, "print what was written");
  return command;
}

/// 1 after an error when the first argument names no command.
static std::optional<int> checkCommand(const CLI::App &app, int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return std::nullopt;
  }
  std::string names;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
    if (command->get_name() == argv[1]) {
      return std::nullopt;
    }
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  std::cerr << "kvc-run: error: expects one of the commands " << names << ", but got '" << argv[1]
            << "'; kvc-run --help says what they do\n";
  return 1;
}

int main(int argc, char **argv) {
  CLI::App app{"Runs what kvc compiles.\nExit status: 0, or 1 after an error."};
  app.require_subcommand(1);

  kvc::GenerateRun generateRun;
  CLI::App *generate = addGenerate(app, generateRun);
  kvc::PerplexityRun perplexityRun;
  CLI::App *perplexity = addPerplexity(app, perplexityRun);
  kvc::LogitsRun logitsRun;
  CLI::App *logits = addLogits(app, logitsRun);
  kvc::InfoRun infoRun;
  CLI::App *info = app.add_subcommand("info", "what a model (.gguf) or an artifact (.kvca) holds");
  info->add_option("file", infoRun.file, "the file")->required();
  addDeviceOptions(info, infoRun.device, infoRun.threads);
  info->add_flag("--json", infoRun.json, "print one line");

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
  CLI::Option *reference =
      module->add_flag("--reference", run.reference, "run on the reference oracle, in double precision");
  module->add_option("--sequences", run.sequences, "sequences of each cache (default: those of the batches)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 20));
  module->add_option("--capacity", run.capacity, "slots that each table of a cache can hold")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  addDeviceOptions(module, run.device, run.threads);
  module->add_option("--weights", run.weights, "the GGUF file that the module's weights are in");
  module->add_option("--target", run.target, "the target that a .mlir module is compiled for (default: the best)");
  module->add_option("--cache-pages", run.cachePages, "pages of each cache's pool (0: every table can be full)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31))
      ->capture_default_str();
  module->add_flag("--json", run.json, "print what was run");
  addSimReport(module, run.simReport)->excludes(reference);
  module->add_flag("--f64", run.wide, "with --reference: write floating point results as they are, in f64")
      ->needs(reference);

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
  addDeviceOptions(tokenize, tokenizeRun.device, tokenizeRun.threads);
  tokenize->add_flag("--json", tokenizeRun.json, "print {\"ids\": [...]}, or {\"text\": ...} for --ids");

  if (std::optional<int> status = checkCommand(app, argc, argv)) {
    return *status;
  }
  if (std::optional<int> status = kvc::parseCommandLine(app, argc, argv)) {
    return *status;
  }
  if (tokenize->parsed()) {
    tokenizeRun.hasText = text->count() > 0;
  }
  bool ok = tokenize->parsed()     ? kvc::runTokenize(tokenizeRun)
            : generate->parsed()   ? kvc::runGenerate(generateRun)
            : perplexity->parsed() ? kvc::runPerplexity(perplexityRun)
            : logits->parsed()     ? kvc::runLogits(logitsRun)
            : info->parsed()       ? kvc::runInfo(infoRun)
                                   : kvc::runModule(run);
  return kvc::finishOutput(ok) ? 0 : 1;
}

//===- Generate.cpp - kvc-run generate ------------------------------------===//
//
// Prompts go through one prefill step and then decode steps, several sequences
// at a time with --batch.
//
//===----------------------------------------------------------------------===//
#include "Generate.h"

#include "Inputs.h"
#include "SimReport.h"
#include "text/ChatTemplate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <random>

using namespace kvc;
using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One sequence that is generated.
struct Stream {
  std::vector<int32_t> prompt, ids;
  int32_t sequence = -1;
  bool done = false;
};

/// Chooses the next token of a row of logits.
class Sampler {
public:
  Sampler(double temperature, uint64_t seed) : temperature(temperature), random(seed) {}

  int32_t next(std::span<const float> logits) {
    auto best = std::max_element(logits.begin(), logits.end());
    if (temperature == 0) {
      return int32_t(best - logits.begin());
    }
    std::vector<double> sums(logits.size());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sum += std::exp((double(logits[i]) - *best) / temperature);
      sums[i] = sum;
    }
    // 53 random bits: the same on every machine, which std::uniform_real_distribution need not be.
    double point = double(random() >> 11) * 0x1p-53 * sum;
    auto found = std::upper_bound(sums.begin(), sums.end(), point);
    return int32_t(std::min<size_t>(found - sums.begin(), sums.size() - 1));
  }

private:
  double temperature;
  std::mt19937_64 random;
};

Result<std::vector<int32_t>> encode(const text::Tokenizer &tokenizer, const std::string &prompt, bool chat) {
  Result<text::Encoding> encoding = chat ? text::encodeChat(tokenizer, {{{"user", prompt}}}) : tokenizer.encode(prompt);
  KVC_RETURN_IF_ERROR(encoding.status());
  return std::move(encoding->ids);
}

/// The lines of a file; an empty one is an error, as results are in the order of the lines.
Result<std::vector<std::string>> lines(const std::string &path, const std::string &text) {
  std::vector<std::string> result;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (line.empty()) {
      return Status(StatusCode::invalidArgument, path + ":" + std::to_string(result.size() + 1) +
                                                     ": expects a prompt in every line, but got an empty one");
    }
    result.push_back(line);
    begin = end + 1;
  }
  return result;
}

Result<std::vector<Stream>> readPrompts(const GenerateRun &run, const text::Tokenizer &tokenizer) {
  std::vector<Stream> streams;
  if (!run.idsFile.empty()) {
    KVC_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readIds(run.idsFile));
    streams.push_back({std::move(ids), {}});
  } else {
    std::vector<std::string> prompts{run.prompt};
    if (!run.hasPrompt) {
      KVC_ASSIGN_OR_RETURN(std::string text, readFile(run.promptFile));
      prompts = {text};
      if (run.batch) {
        KVC_ASSIGN_OR_RETURN(prompts, lines(run.promptFile, text));
      }
    }
    for (const std::string &prompt : prompts) {
      KVC_ASSIGN_OR_RETURN(std::vector<int32_t> ids, encode(tokenizer, prompt, run.chat));
      streams.push_back({std::move(ids), {}});
    }
  }
  if (streams.empty() || llvm::any_of(streams, [](const Stream &stream) { return stream.prompt.empty(); })) {
    return Status(StatusCode::invalidArgument, "expects prompts of at least one token, but got an empty one");
  }
  return streams;
}

struct Timing {
  double prefillTokens = 0, prefillSeconds = 0, decodeTokens = 0, decodeSeconds = 0;
};

/// What a person wants to know of a run, one figure per line.
/// `exact` of `tokens` tokens are not in codes yet.
void printTable(llvm::raw_ostream &os, const json &figures, const Timing &timing, const ModelFacts &facts,
                int64_t exact, int64_t tokens) {
  double bytes = figures["kv_bytes_per_token"], bits = figures["kv_effective_bits"];
  double f16 = double(2 * facts.layers * facts.kvHeads * (facts.dim + facts.vDim));
  os << '\n'
     << llvm::format("prefill         %10.1f tokens/s (%.0f tokens)\n", figures["prefill_tok_s"].get<double>(),
                     timing.prefillTokens)
     << llvm::format("decode          %10.1f tokens/s (%.0f tokens)\n", figures["decode_tok_s"].get<double>(),
                     timing.decodeTokens)
     << llvm::format("KV per token    %10.1f bytes (f16: %.0f, ratio %.2f)\n", bytes, f16, bytes / f16)
     << llvm::format("effective bits  %10.2f per value (f16: 16)\n", bits);
  if (exact) {
    os << llvm::format("not yet codes   %10lld tokens of %lld: the newest stay exact\n", static_cast<long long>(exact),
                       static_cast<long long>(tokens));
  }
}

/// Runs all streams to their ends.
Status generate(const GenerateRun &run, const LanguageModel &model, ModelSession &session, std::vector<Stream> &streams,
                Timing &timing) {
  Sampler sampler(run.temperature, run.seed);
  const text::Tokenizer &tokenizer = model.tokenizer();
  // Text appears as it comes where a person watches.
  bool live = !run.json && streams.size() == 1;
  text::StreamDecoder decoder(tokenizer);
  std::vector<Stream *> active;
  std::vector<ModelSession::Append> entries;
  for (Stream &stream : streams) {
    KVC_ASSIGN_OR_RETURN(stream.sequence, session.create());
    entries.push_back({stream.sequence, stream.prompt});
    active.push_back(&stream);
    timing.prefillTokens += double(stream.prompt.size());
  }
  bool isPrefill = true;
  while (!active.empty()) {
    Clock::time_point start = Clock::now();
    Result<ModelSession::Logits> logits = session.step(entries);
    KVC_RETURN_IF_ERROR(logits.status());
    (isPrefill ? timing.prefillSeconds : timing.decodeSeconds) += secondsSince(start);
    if (!isPrefill) {
      timing.decodeTokens += double(active.size());
    }
    isPrefill = false;
    if (run.maxTokens == 0) {
      break; // only the prompts' cache was wanted
    }
    for (auto [i, stream] : llvm::enumerate(active)) {
      int32_t id = sampler.next(logits->row(int64_t(i)));
      stream->ids.push_back(id);
      int64_t length = int64_t(stream->prompt.size() + stream->ids.size());
      bool isFull = length >= model.facts().context;
      stream->done = tokenizer.isEnd(id) || int64_t(stream->ids.size()) == run.maxTokens || isFull;
      if (isFull && !tokenizer.isEnd(id) && int64_t(stream->ids.size()) < run.maxTokens) {
        llvm::WithColor::note(llvm::errs(), "kvc-run")
            << "stopped at the " << length << " tokens of the model's context\n";
      }
      if (live) {
        KVC_ASSIGN_OR_RETURN(std::string text, decoder.push(id));
        llvm::outs() << text;
        llvm::outs().flush();
      }
    }
    llvm::erase_if(active, [](const Stream *stream) { return stream->done; });
    entries.clear();
    for (Stream *stream : active) {
      entries.push_back({stream->sequence, std::span(&stream->ids.back(), 1)});
    }
  }
  if (live) {
    llvm::outs() << decoder.finish() << '\n';
  }
  return {};
}

Status runOrFail(const GenerateRun &run) {
  if (run.simReport) {
    KVC_RETURN_IF_ERROR(checkSimulated(run.model.device));
  }
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  if (isTerminal) {
    llvm::errs() << "compiling " << run.model.path << " ...\n";
  }
  LanguageModelOptions options = run.model;
  // On a CPU everything is on the host, and the list would cost time that is being measured. A graph has no dispatches.
  options.profile = run.simReport || (run.json && options.device != "cpu" && !options.graphs);
  KVC_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, LanguageModel::load(options));
  KVC_ASSIGN_OR_RETURN(std::vector<Stream> streams, readPrompts(run, model->tokenizer()));
  int64_t longest = 0;
  for (const Stream &stream : streams) {
    longest = std::max<int64_t>(longest, stream.prompt.size());
  }
  int64_t context = model->facts().context;
  if (longest > context) {
    return Status(StatusCode::invalidArgument, "expects a prompt of at most the " + std::to_string(context) +
                                                   " tokens of the model's context, but got " +
                                                   std::to_string(longest));
  }
  int64_t capacity = std::min(longest + std::max<int64_t>(run.maxTokens, 1), context);
  KVC_ASSIGN_OR_RETURN(ModelSession session, model->createSession(int32_t(streams.size()), capacity));
  Timing timing;
  KVC_RETURN_IF_ERROR(generate(run, *model, session, streams, timing));
  KVC_ASSIGN_OR_RETURN(kvc_cache_statistics_t statistics, session.statistics());
  const ModelFacts &facts = model->facts();
  int64_t appended = 0, exact = 0;
  for (const Stream &stream : streams) {
    // The last token was never appended.
    int64_t length = int64_t(stream.prompt.size() + stream.ids.size()) - (stream.ids.empty() ? 0 : 1);
    appended += length;
    exact += session.exactTokens(length);
  }
  double tokens = double(appended);
  auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0.0; };
  json common = {{"prefill_tok_s", rate(timing.prefillTokens, timing.prefillSeconds)},
                 {"decode_tok_s", rate(timing.decodeTokens, timing.decodeSeconds)},
                 {"kv_bytes_per_token", tokens ? statistics.bytes_used / tokens : 0.0},
                 {"kv_effective_bits", effectiveBits(facts, statistics.bytes_used, tokens * double(facts.layers))},
                 {"target", model->target()}};
  if (options.graphs) {
    KVC_ASSIGN_OR_RETURN(LanguageModel::GraphCounts graphs, model->graphCounts());
    common["graphs"] = {{"captured", graphs.captured}, {"launched", graphs.launched}};
  }
  json sequences = json::array();
  for (const Stream &stream : streams) {
    KVC_ASSIGN_OR_RETURN(std::string text, model->tokenizer().decode(stream.ids, /*showSpecial=*/false));
    sequences.push_back({{"prompt_ids", stream.prompt}, {"ids", stream.ids}, {"text", text}});
    if (!run.json && streams.size() > 1) {
      llvm::outs() << text << "\n---\n";
    }
  }
  KVC_ASSIGN_OR_RETURN(std::string profile, model->takeProfile());
  KVC_ASSIGN_OR_RETURN(SimReport report, SimReport::parse(profile));
  if (run.json) {
    json result = common;
    if (options.profile) {
      result["dispatches"] = report.dispatches();
    }
    if (run.simReport) {
      result["sim_report"] = report.kernels();
    }
    if (run.batch) {
      result["sequences"] = sequences;
    } else {
      result.update(sequences.front());
    }
    // A token may end within a character, which JSON cannot hold: it becomes U+FFFD.
    llvm::outs() << result.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  } else if (run.table || isTerminal) {
    printTable(run.table ? llvm::outs() : llvm::errs(), common, timing, facts, exact, appended);
  }
  if (run.simReport && !run.json) {
    report.print(llvm::outs());
  }
  return {};
}

} // namespace

bool kvc::runGenerate(const GenerateRun &run) {
  Status status = runOrFail(run);
  if (!status.ok()) {
    llvm::WithColor::error(llvm::errs(), "kvc-run") << status.message() << '\n';
  }
  return status.ok();
}

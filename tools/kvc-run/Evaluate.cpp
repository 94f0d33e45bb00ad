//===- Evaluate.cpp - kvc-run perplexity and logits -----------------------===//
#include "Generate.h"

#include "Inputs.h"
#include "kvc/Support/Npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>

using namespace kvc;
using nlohmann::json;

static Status invalid(std::string message) { return Status(StatusCode::invalidArgument, std::move(message)); }

/// Appends `ids` to a new sequence, `prompt` tokens in one step and the others in steps of `chunk`, and hands out the
/// logits of every position.
static Status forEachRow(ModelSession &session, std::span<const int32_t> ids, int64_t prompt, int64_t chunk,
                         const std::function<void(int64_t, std::span<const float>)> &visit) {
  KVC_ASSIGN_OR_RETURN(int32_t sequence, session.create());
  for (int64_t begin = 0, step = 0; begin < int64_t(ids.size()); begin += step) {
    step = std::min<int64_t>(begin == 0 && prompt ? prompt : chunk, int64_t(ids.size()) - begin);
    ModelSession::Append entry{sequence, ids.subspan(begin, step)};
    Result<ModelSession::Logits> logits = session.stepAll({&entry, 1});
    KVC_RETURN_IF_ERROR(logits.status());
    for (int64_t row = 0; row < logits->rows; ++row) {
      visit(begin + row, logits->row(row));
    }
  }
  return session.free(sequence);
}

/// -log of the probability of `target`.
static double negativeLogLikelihood(std::span<const float> logits, int32_t target) {
  double largest = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float logit : logits) {
    sum += std::exp(double(logit) - largest);
  }
  return largest + std::log(sum) - logits[target];
}

static Status perplexity(const PerplexityRun &run) {
  if (run.prompt >= run.window) {
    return invalid("expects a prompt of fewer tokens than the window's " + std::to_string(run.window) + ", but got " +
                   std::to_string(run.prompt));
  }
  KVC_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, LanguageModel::load(run.model));
  std::vector<int32_t> ids;
  if (!run.idsFile.empty()) {
    KVC_ASSIGN_OR_RETURN(ids, readIds(run.idsFile));
  } else {
    KVC_ASSIGN_OR_RETURN(std::string text, readFile(run.textFile));
    Result<text::Encoding> encoding = model->tokenizer().encode(text);
    KVC_RETURN_IF_ERROR(encoding.status());
    ids = std::move(encoding->ids);
  }
  for (int32_t id : ids) {
    if (id >= model->facts().vocabulary) {
      return invalid("expects token ids of 0 to " + std::to_string(model->facts().vocabulary - 1) + ", but got " +
                     std::to_string(id));
    }
  }
  int64_t available = int64_t(ids.size()) / run.window;
  int64_t count = run.windows ? run.windows : available;
  if (count == 0 || count > available) {
    return invalid("expects at least " + std::to_string(std::max<int64_t>(count, 1) * run.window) +
                   " tokens for the windows, but got " + std::to_string(ids.size()));
  }
  KVC_ASSIGN_OR_RETURN(ModelSession session, model->createSession(1, run.window));
  double total = 0;
  int64_t tokens = 0, targets = run.window - std::max<int64_t>(run.prompt, 1);
  json each = json::array();
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  for (int64_t i = 0; i < count; ++i) {
    std::span<const int32_t> window = std::span(ids).subspan(i * run.window, run.window);
    double sum = 0;
    KVC_RETURN_IF_ERROR(
        forEachRow(session, window, run.prompt, run.chunk, [&](int64_t position, std::span<const float> logits) {
          if (position + 1 < run.window && position + 1 >= run.prompt) {
            sum += negativeLogLikelihood(logits, window[position + 1]);
          }
        }));
    total += sum;
    tokens += targets;
    each.push_back(std::exp(sum / double(targets)));
    if (isTerminal) {
      llvm::errs() << "window " << i + 1 << " of " << count << ": " << each.back().dump() << '\n';
    }
  }
  double result = std::exp(total / double(tokens));
  if (run.json) {
    llvm::outs() << json{{"perplexity", result}, {"tokens", tokens}, {"windows", each}}.dump() << '\n';
  } else {
    llvm::outs() << "perplexity " << result << " over " << tokens << " tokens\n";
  }
  return {};
}

static Status logits(const LogitsRun &run) {
  KVC_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readIds(run.idsFile));
  if (ids.empty()) {
    return invalid(run.idsFile + ": expects at least one token id, but got none");
  }
  std::vector<int64_t> positions;
  for (llvm::StringRef text : llvm::split(run.positions, ',')) {
    int64_t position;
    if (text.trim().getAsInteger(10, position)) {
      return invalid("expects comma-separated positions, but got '" + run.positions + "'");
    }
    if (position < 0 || position >= int64_t(ids.size())) {
      return invalid("expects positions of 0 to " + std::to_string(int64_t(ids.size()) - 1) + ", but got " +
                     std::to_string(position));
    }
    positions.push_back(position);
  }
  KVC_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, LanguageModel::load(run.model));
  KVC_ASSIGN_OR_RETURN(ModelSession session, model->createSession(1, int64_t(ids.size())));
  int64_t vocabulary = model->facts().vocabulary;
  NpyArray array;
  array.shape = {int64_t(positions.size()), vocabulary};
  array.bytes.resize(array.shape[0] * vocabulary * sizeof(float));
  // What comes after the last position has no influence.
  int64_t last = *std::max_element(positions.begin(), positions.end());
  std::span<const int32_t> needed = std::span(ids).first(size_t(last + 1));
  KVC_RETURN_IF_ERROR(forEachRow(session, needed, 0, run.chunk, [&](int64_t position, std::span<const float> row) {
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] == position) {
        std::memcpy(array.bytes.data() + i * row.size_bytes(), row.data(), row.size_bytes());
      }
    }
  }));
  if (llvm::Error error = writeNpy(run.output, array)) {
    return Status(StatusCode::io, llvm::toString(std::move(error)));
  }
  if (run.json) {
    llvm::outs() << json{{"positions", positions}, {"vocabulary", vocabulary}, {"file", run.output}}.dump() << '\n';
  }
  return {};
}

static bool report(const Status &status) {
  if (!status.ok()) {
    llvm::WithColor::error(llvm::errs(), "kvc-run") << status.message() << '\n';
  }
  return status.ok();
}

bool kvc::runPerplexity(const PerplexityRun &run) { return report(perplexity(run)); }
bool kvc::runLogits(const LogitsRun &run) { return report(logits(run)); }

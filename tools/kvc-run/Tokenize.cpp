//===- Tokenize.cpp - kvc-run tokenize ------------------------------------===//
//
// Text to token ids and back, with the tokenizer of a model file.
//
//===----------------------------------------------------------------------===//
#include "Tokenize.h"

#include "Inputs.h"
#include "text/ChatTemplate.h"
#include "text/Tokenizer.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

using namespace kvc;
using nlohmann::json;

static Status run(const TokenizeRun &run) {
  KVC_RETURN_IF_ERROR(checkDevice(run.device, run.threads));
  KVC_ASSIGN_OR_RETURN(gguf::File file, gguf::File::open(run.model));
  KVC_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::fromGguf(file));
  if (!run.idsFile.empty()) {
    KVC_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readIds(run.idsFile));
    KVC_ASSIGN_OR_RETURN(std::string text, tokenizer.decode(ids));
    // Tokens may hold parts of characters, which JSON cannot: they become U+FFFD there.
    llvm::outs() << (run.json ? json{{"text", text}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"
                              : text);
    return {};
  }
  std::string text = run.text;
  if (!run.hasText) {
    KVC_ASSIGN_OR_RETURN(text, readFile(run.textFile));
  }
  Result<text::Encoding> encoding = run.chat ? text::encodeChat(tokenizer, {{{"user", text}}})
                                             : tokenizer.encode(text, {.parseSpecial = run.special});
  KVC_RETURN_IF_ERROR(encoding.status());
  if (encoding->droppedBytes) {
    llvm::WithColor::warning(llvm::errs(), "kvc-run")
        << "the vocabulary has no token for " << encoding->droppedBytes << " bytes of the text\n";
  }
  if (run.json) {
    llvm::outs() << json{{"ids", encoding->ids}}.dump() << '\n';
    return {};
  }
  for (int32_t id : encoding->ids) {
    llvm::outs() << id << '\n';
  }
  return {};
}

bool kvc::runTokenize(const TokenizeRun &command) {
  Status status = run(command);
  if (!status.ok()) {
    llvm::WithColor::error(llvm::errs(), "kvc-run") << status.message() << '\n';
  }
  return status.ok();
}

//===- ChatTemplate.h - Chat turns to one prompt ----------------*- C++ -*-===//
//
// Renders the chat template of a model file. Templates are written in Jinja;
// this is the subset that templates of models use: text, {{ }}, {% for %},
// {% if %}, {% set %}, comments, white-space control, expressions, and the
// filters, tests and methods of the tables in ChatValues.cpp. Anything else is
// an error that names it and its line. As model tools do, `trim_blocks` and
// `lstrip_blocks` are on. The semantics are those of the Jinja documentation
// (https://jinja.palletsprojects.com/en/stable/templates/).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEXT_CHATTEMPLATE_H
#define KVC_TEXT_CHATTEMPLATE_H

#include "support/Result.h"
#include "text/Tokenizer.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvc::text {

struct ChatMessage {
  std::string role; ///< "system", "user" or "assistant"
  std::string content;
};

struct ChatOptions {
  bool addGenerationPrompt = true; ///< end with the start of the assistant's turn
  std::string bosToken, eosToken;  ///< texts that the template may insert
};

/// Immutable; any number of threads may use it.
class ChatTemplate {
public:
  /// Errors: unsupported for what the subset lacks, corrupt for what is not Jinja.
  static Result<ChatTemplate> parse(std::string_view source);

  /// Errors: invalidArgument for what the template itself refuses (raise_exception) or cannot compute, outOfRange for
  /// output or work without end.
  Result<std::string> render(std::span<const ChatMessage> messages, const ChatOptions &options = {}) const;

  struct Program;

private:
  std::shared_ptr<const Program> program;
};

/// The ids of a conversation, with the template of the tokenizer's model. Texts of control tokens in the messages
/// become those tokens. Errors: unsupported when the model has no template, and those of parse, render and encode.
Result<Encoding> encodeChat(const Tokenizer &tokenizer, std::span<const ChatMessage> messages,
                            bool addGenerationPrompt = true);

} // namespace kvc::text

#endif // KVC_TEXT_CHATTEMPLATE_H

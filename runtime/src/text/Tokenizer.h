//===- Tokenizer.h - Byte-level BPE -----------------------------*- C++ -*-===//
//
// Text to token ids and back for models whose GGUF file says
// `tokenizer.ggml.model` = "gpt2".
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEXT_TOKENIZER_H
#define KVC_TEXT_TOKENIZER_H

#include "gguf/File.h"
#include "support/Result.h"
#include "text/Pretokenizer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvc::text {

/// What a token is; the numbers are those of `tokenizer.ggml.token_type`.
enum class TokenKind : int32_t { normal = 1, unknown = 2, control = 3, userDefined = 4, unused = 5, byte = 6 };

/// The tables of a tokenizer as the file has them.
struct Vocabulary {
  std::string model;               ///< tokenizer.ggml.model
  std::string pre;                 ///< tokenizer.ggml.pre
  std::vector<std::string> tokens; ///< normal tokens in GPT-2's printable alphabet, others as plain text
  std::vector<TokenKind> kinds;    ///< one for each token
  std::vector<std::string> merges; ///< "left right", the first merge comes first
  std::optional<int32_t> bos, eos; ///< begin and end of a sequence
  std::vector<int32_t> otherEnds;  ///< end of turn, end of message
  std::optional<bool> addBos;      ///< absent: what the pre-tokeniser's row says
  std::string chatTemplate;        ///< Jinja; empty when the file has none

  /// Reads `tokenizer.*`. Errors: notFound, invalidArgument, corrupt (arrays that do not fit each other, ids out of
  /// the vocabulary).
  static Result<Vocabulary> fromGguf(const gguf::File &file);
};

struct EncodeOptions {
  bool parseSpecial = false; ///< texts of control tokens become those tokens; otherwise they are ordinary text
  bool addBos = true;        ///< put BOS in front where the model wants one
};

struct Encoding {
  std::vector<int32_t> ids;
  uint64_t droppedBytes = 0; ///< bytes of the text for which the vocabulary has no token
};

/// Immutable; any number of threads may use it. It can be moved, and not copied: it has views into itself.
class Tokenizer {
public:
  Tokenizer(Tokenizer &&) = default;
  Tokenizer &operator=(Tokenizer &&) = default;

  /// Errors: unsupported for a model or pre-tokeniser that is not known, corrupt for tables that make no sense.
  static Result<Tokenizer> create(Vocabulary vocabulary);
  static Result<Tokenizer> fromGguf(const gguf::File &file);

  /// Any bytes are accepted; bytes that are no UTF-8 come back from decode unchanged, as far as they have tokens.
  Result<Encoding> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes of the tokens, which need not be whole UTF-8 characters. `showSpecial` = false leaves out control
  /// tokens. Errors: outOfRange for an id that the vocabulary does not have; the message gives its index.
  Result<std::string> decode(std::span<const int32_t> ids, bool showSpecial = true) const;

  int32_t size() const { return int32_t(pieces.size()); }
  std::optional<int32_t> bos() const { return vocabulary.bos; }
  std::optional<int32_t> eos() const { return vocabulary.eos; }
  bool addsBos() const { return vocabulary.bos && vocabulary.addBos.value_or(pretokenizer.rules().addBosByDefault); }
  /// Tokens that end a generation: those that the file names, and control tokens whose text is known to be an end.
  std::span<const int32_t> endTokens() const { return ends; }
  bool isEnd(int32_t id) const;
  const std::string &chatTemplate() const { return vocabulary.chatTemplate; }
  /// The text of a token as the file has it, empty when there is no such token.
  std::string_view tokenText(int32_t id) const;

private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  struct Special {
    std::string_view text;
    int32_t id;
    bool always; ///< cut even when special tokens are not parsed
  };
  class Merger;

  Tokenizer() = default;
  Status buildMerges();
  void buildSpecials();
  Status encodePlain(std::string_view text, Merger &merger, Encoding &out) const;

  Vocabulary vocabulary;
  Pretokenizer pretokenizer;
  std::vector<std::string> pieces; ///< bytes of each token
  std::vector<Special> specials;   ///< longer texts first
  std::vector<int32_t> ends;       ///< sorted

  // Symbols are tokens, then the strings that occur only as parts of merges or as bytes.
  std::array<int32_t, 256> byteSymbols{};
  std::vector<std::string> extraSymbols; ///< bytes of symbol size() + i
  std::unordered_map<uint64_t, Merge> merges;
  std::unordered_map<std::string_view, int32_t> wholeWords; ///< pieces to ids, if the rules ask for them
};

/// Decodes ids one at a time, holding back a UTF-8 character that is not complete yet.
class StreamDecoder {
public:
  explicit StreamDecoder(const Tokenizer &tokenizer, bool showSpecial = false)
      : tokenizer(&tokenizer), showSpecial(showSpecial) {}

  /// The text that became complete with this token.
  Result<std::string> push(int32_t id);
  /// What is still held back, as it is.
  std::string finish();

private:
  const Tokenizer *tokenizer;
  bool showSpecial;
  std::string pending;
};

} // namespace kvc::text

#endif // KVC_TEXT_TOKENIZER_H

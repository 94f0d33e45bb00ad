//===- Pretokenizer.h - Cuts text into words before merging -----*- C++ -*-===//
//
// Byte-level BPE never merges across the cuts that a model's pre-tokeniser
// makes. The rules are a table of regular expressions, one row a name that
// occurs as `tokenizer.ggml.pre`.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEXT_PRETOKENIZER_H
#define KVC_TEXT_PRETOKENIZER_H

#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::text {

/// A row of the table.
struct PretokenizerRules {
  std::string_view name;
  /// Applied one after the other, each within the parts that the one before left. A part is cut into the matches and
  /// what lies between them.
  std::vector<const char *> patterns;
  bool wholeWords;      ///< a word that is a token is not merged from bytes
  bool addBosByDefault; ///< when the file does not say it
};

/// The cutter of one model. Immutable; any number of threads may use it.
class Pretokenizer {
public:
  /// Errors: unsupported for a name that is not in the table; the message lists the known ones.
  static Result<Pretokenizer> create(std::string_view name);

  const PretokenizerRules &rules() const { return *row; }

  /// The end of each word of `text` as a byte offset, in order; the last one is text.size(). Bytes that are no UTF-8
  /// count as a symbol (neither letter, number nor space). Errors: outOfRange for texts of 1 GiB and more.
  Result<std::vector<uint32_t>> split(std::string_view text) const;

private:
  struct Compiled;
  const PretokenizerRules *row = nullptr;
  std::shared_ptr<const Compiled> compiled;
};

} // namespace kvc::text

#endif // KVC_TEXT_PRETOKENIZER_H

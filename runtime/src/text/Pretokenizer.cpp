//===- Pretokenizer.cpp - Cuts text into words before merging -------------===//
//
// The table of rules and their application with ICU regular expressions.
//
//===----------------------------------------------------------------------===//
#include "text/Pretokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <unicode/regex.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

namespace kvc::text {

namespace {

constexpr size_t maxTextBytes = size_t(1) << 30;

/// The pattern of GPT-2's tokeniser. White space is Unicode's White_Space.
constexpr const char *gpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+)"
                                  R"(|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)";

/// The pattern of Llama 3; Qwen 2 differs in that digits stand alone. The contractions name both cases: a
/// case-insensitive match would also take U+017F, LATIN SMALL LETTER LONG S.
#define KVC_LLAMA3_WORDS(DIGITS)                                                                                       \
  R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"                                                       \
  R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)" DIGITS R"(| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*|\p{White_Space}*[\r\n]+)"          \
  R"(|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"
constexpr const char *llama3Words = KVC_LLAMA3_WORDS(R"(\p{N}{1,3})");
constexpr const char *qwen2Words = KVC_LLAMA3_WORDS(R"(\p{N})");
#undef KVC_LLAMA3_WORDS

constexpr const char *singleDigits = R"(\p{N})";

const std::vector<PretokenizerRules> &table() {
  static const std::vector<PretokenizerRules> rows = {
      {"gpt-2", {gpt2Words}, false, false},
      {"smollm", {singleDigits, gpt2Words}, false, false},
      {"llama-bpe", {llama3Words}, true, true},
      {"qwen2", {qwen2Words}, false, false},
  };
  return rows;
}

/// Text as UTF-16, for ICU.
std::u16string toUtf16(std::string_view text) {
  std::u16string out;
  out.reserve(text.size());
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  for (int32_t i = 0, n = int32_t(text.size()); i < n;) {
    UChar32 c;
    U8_NEXT_OR_FFFD(bytes, i, n, c);
    if (c <= 0xffff) {
      out += char16_t(c);
    } else {
      out += char16_t(U16_LEAD(c));
      out += char16_t(U16_TRAIL(c));
    }
  }
  return out;
}

Status icuFailure(UErrorCode code) {
  return {StatusCode::internal, fmt::format("regular expression of the pre-tokeniser failed: {}", u_errorName(code))};
}

/// Cuts each part (given by the ends) into matches and gaps.
Status cut(const icu::RegexPattern &pattern, const icu::UnicodeString &text, std::vector<int32_t> &ends) {
  UErrorCode code = U_ZERO_ERROR;
  std::unique_ptr<icu::RegexMatcher> matcher(pattern.matcher(text, code));
  std::vector<int32_t> out;
  out.reserve(ends.size());
  int32_t start = 0;
  for (int32_t end : ends) {
    // The default bounds are opaque: a look-ahead sees the end of the part as the end of the text.
    matcher->region(start, end, code);
    while (U_SUCCESS(code) && matcher->find(code)) {
      int32_t from = matcher->start(code), to = matcher->end(code);
      if (from > start) {
        out.push_back(from);
      }
      if (to > from) {
        out.push_back(to);
      }
      start = to;
    }
    if (U_FAILURE(code)) {
      return icuFailure(code);
    }
    if (end > start) {
      out.push_back(end);
    }
    start = end;
  }
  ends = std::move(out);
  return {};
}

} // namespace

struct Pretokenizer::Compiled {
  std::vector<std::unique_ptr<const icu::RegexPattern>> patterns;
};

Result<Pretokenizer> Pretokenizer::create(std::string_view name) {
  auto row = std::ranges::find(table(), name, &PretokenizerRules::name);
  if (row == table().end()) {
    std::string known;
    for (const PretokenizerRules &rules : table()) {
      known += (known.empty() ? "'" : ", '") + std::string(rules.name) + "'";
    }
    return Status(StatusCode::unsupported,
                  fmt::format("expects a pre-tokeniser (tokenizer.ggml.pre) out of {}, but got '{}'", known, name));
  }
  auto compiled = std::make_shared<Compiled>();
  for (const char *pattern : row->patterns) {
    UErrorCode code = U_ZERO_ERROR;
    UParseError where;
    compiled->patterns.emplace_back(icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(pattern), 0, where, code));
    if (U_FAILURE(code)) {
      return icuFailure(code);
    }
  }
  Pretokenizer result;
  result.row = &*row;
  result.compiled = std::move(compiled);
  return result;
}

Result<std::vector<uint32_t>> Pretokenizer::split(std::string_view text) const {
  if (text.size() >= maxTextBytes) {
    return Status(StatusCode::outOfRange,
                  fmt::format("expects a text below {} bytes, but got {}", maxTextBytes, text.size()));
  }
  std::u16string wide = toUtf16(text);
  const icu::UnicodeString alias(false, wide.data(), int32_t(wide.size()));
  std::vector<int32_t> wideEnds;
  if (!wide.empty()) {
    wideEnds.push_back(int32_t(wide.size()));
  }
  for (const auto &pattern : compiled->patterns) {
    KVC_RETURN_IF_ERROR(cut(*pattern, alias, wideEnds));
  }
  // Back to byte offsets: walk both forms of the text in step.
  std::vector<uint32_t> ends;
  ends.reserve(wideEnds.size());
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  int32_t byte = 0, unit = 0, size = int32_t(text.size());
  for (int32_t end : wideEnds) {
    while (unit < end) {
      UChar32 c;
      U8_NEXT_OR_FFFD(bytes, byte, size, c);
      unit += U16_LENGTH(c);
    }
    ends.push_back(uint32_t(byte));
  }
  return ends;
}

} // namespace kvc::text

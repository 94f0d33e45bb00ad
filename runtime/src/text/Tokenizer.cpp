//===- Tokenizer.cpp - Byte-level BPE -------------------------------------===//
//
// Reading of the vocabulary, merging, special tokens, decoding.
//
//===----------------------------------------------------------------------===//
#include "text/Tokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <unicode/utf8.h>

namespace kvc::text {

namespace {

/// Control tokens that end a generation whatever the file says: their texts are conventions of model families.
constexpr std::string_view endTexts[] = {"<|endoftext|>", "<|im_end|>",      "<|end|>",    "<|eot_id|>",
                                         "<|eom_id|>",    "<|end_of_text|>", "<|return|>", "<EOT>",
                                         "</s>",          "<end_of_turn>",   "<reponame>"};

/// GPT-2's printable alphabet: the code point that stands for each byte, and back.
struct ByteAlphabet {
  std::array<char32_t, 256> point;
  std::array<int16_t, 512> byte;

  ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      point[b] = printable ? char32_t(b) : next++;
      byte[point[b]] = int16_t(b);
    }
  }

  std::string text(uint8_t b) const {
    char32_t c = point[b];
    if (c < 0x80) {
      return std::string(1, char(c));
    }
    return {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  }

  /// The bytes that a string stands for, or nothing when it has other characters.
  std::optional<std::string> bytes(std::string_view mapped) const {
    std::string out;
    const auto *data = reinterpret_cast<const uint8_t *>(mapped.data());
    for (int32_t i = 0, n = int32_t(mapped.size()); i < n;) {
      UChar32 c;
      U8_NEXT(data, i, n, c);
      if (c < 0 || size_t(c) >= byte.size() || byte[c] < 0) {
        return std::nullopt;
      }
      out += char(byte[c]);
    }
    return out;
  }
};

const ByteAlphabet &alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

uint64_t pairKey(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

/// An optional id of a token, checked against the vocabulary.
Status readId(const gguf::File &file, std::string_view key, size_t tokens, std::optional<int32_t> &id) {
  if (!file.find(key)) {
    return {};
  }
  KVC_ASSIGN_OR_RETURN(uint64_t value, file.getUnsigned(key));
  if (value >= tokens) {
    return {StatusCode::corrupt,
            fmt::format("{}: expects an id below {} for key '{}', but got {}", file.name(), tokens, key, value)};
  }
  id = int32_t(value);
  return {};
}

std::vector<std::string> copies(std::span<const std::string_view> views) { return {views.begin(), views.end()}; }

} // namespace

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

Result<Vocabulary> Vocabulary::fromGguf(const gguf::File &file) {
  Vocabulary v;
  KVC_ASSIGN_OR_RETURN(v.model, file.getString("tokenizer.ggml.model"));
  if (file.find("tokenizer.ggml.pre")) {
    KVC_ASSIGN_OR_RETURN(v.pre, file.getString("tokenizer.ggml.pre"));
  }
  KVC_ASSIGN_OR_RETURN(auto tokens, file.getStrings("tokenizer.ggml.tokens"));
  v.tokens = copies(tokens);
  v.kinds.assign(v.tokens.size(), TokenKind::normal);
  if (file.find("tokenizer.ggml.token_type")) {
    KVC_ASSIGN_OR_RETURN(std::vector<int64_t> kinds, file.getIntegers("tokenizer.ggml.token_type"));
    if (kinds.size() != v.tokens.size()) {
      return Status(StatusCode::corrupt, fmt::format("{}: expects a type for each of the {} tokens, but got {}",
                                                     file.name(), v.tokens.size(), kinds.size()));
    }
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] < 1 || kinds[i] > 6) {
        return Status(StatusCode::corrupt,
                      fmt::format("{}: expects a type from 1 to 6 for token {}, but got {}", file.name(), i, kinds[i]));
      }
      v.kinds[i] = TokenKind(kinds[i]);
    }
  }
  if (file.find("tokenizer.ggml.merges")) {
    KVC_ASSIGN_OR_RETURN(auto merges, file.getStrings("tokenizer.ggml.merges"));
    v.merges = copies(merges);
  }
  KVC_RETURN_IF_ERROR(readId(file, "tokenizer.ggml.bos_token_id", v.tokens.size(), v.bos));
  KVC_RETURN_IF_ERROR(readId(file, "tokenizer.ggml.eos_token_id", v.tokens.size(), v.eos));
  for (const char *key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    std::optional<int32_t> id;
    KVC_RETURN_IF_ERROR(readId(file, key, v.tokens.size(), id));
    if (id) {
      v.otherEnds.push_back(*id);
    }
  }
  if (file.find("tokenizer.ggml.add_bos_token")) {
    KVC_ASSIGN_OR_RETURN(v.addBos, file.getBool("tokenizer.ggml.add_bos_token"));
  }
  if (file.find("tokenizer.chat_template")) {
    KVC_ASSIGN_OR_RETURN(v.chatTemplate, file.getString("tokenizer.chat_template"));
  }
  return v;
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

Result<Tokenizer> Tokenizer::fromGguf(const gguf::File &file) {
  KVC_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::fromGguf(file));
  Result<Tokenizer> tokenizer = create(std::move(vocabulary));
  if (!tokenizer.ok()) {
    return Status(tokenizer.status()).withContext(file.name());
  }
  return tokenizer;
}

Result<Tokenizer> Tokenizer::create(Vocabulary vocabulary) {
  if (vocabulary.model != "gpt2") {
    return Status(StatusCode::unsupported,
                  fmt::format("expects the tokenizer model 'gpt2' (byte-level BPE), but got '{}'", vocabulary.model));
  }
  constexpr size_t limit = std::numeric_limits<int32_t>::max() / 4;
  if (vocabulary.tokens.empty() || vocabulary.tokens.size() > limit || vocabulary.merges.size() > limit) {
    return Status(StatusCode::corrupt, fmt::format("expects 1 to {} tokens and as many merges, but got {} and {}",
                                                   limit, vocabulary.tokens.size(), vocabulary.merges.size()));
  }
  if (vocabulary.kinds.size() != vocabulary.tokens.size()) {
    return Status(StatusCode::invalidArgument, fmt::format("expects a kind for each of the {} tokens, but got {}",
                                                           vocabulary.tokens.size(), vocabulary.kinds.size()));
  }
  Tokenizer t;
  KVC_ASSIGN_OR_RETURN(t.pretokenizer, Pretokenizer::create(vocabulary.pre));
  t.vocabulary = std::move(vocabulary);
  t.pieces.reserve(t.vocabulary.tokens.size());
  for (size_t i = 0; i < t.vocabulary.tokens.size(); ++i) {
    // Text of added tokens is plain: it may have characters that the alphabet lacks.
    bool mapped = t.vocabulary.kinds[i] == TokenKind::normal;
    std::optional<std::string> bytes = mapped ? alphabet().bytes(t.vocabulary.tokens[i]) : std::nullopt;
    t.pieces.push_back(bytes ? std::move(*bytes) : t.vocabulary.tokens[i]);
  }
  KVC_RETURN_IF_ERROR(t.buildMerges());
  t.buildSpecials();
  return t;
}

Status Tokenizer::buildMerges() {
  std::unordered_map<std::string, int32_t> symbols;
  symbols.reserve(vocabulary.tokens.size() + 256);
  for (int32_t id = 0; id < size(); ++id) {
    symbols.insert_or_assign(vocabulary.tokens[id], id);
  }
  auto intern = [&](std::string text) {
    auto [it, added] = symbols.try_emplace(std::move(text), size() + int32_t(extraSymbols.size()));
    if (added) {
      extraSymbols.push_back(alphabet().bytes(it->first).value_or(""));
    }
    return it->second;
  };
  for (int b = 0; b < 256; ++b) {
    byteSymbols[b] = intern(alphabet().text(uint8_t(b)));
  }
  merges.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string &merge = vocabulary.merges[rank];
    size_t space = merge.find(' ', 1);
    if (merge.size() < 3 || space == std::string::npos || space + 1 == merge.size()) {
      return {StatusCode::corrupt, fmt::format("expects two symbols with a space between them as merge {}, but got {} "
                                               "bytes without that form",
                                               rank, merge.size())};
    }
    std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    int32_t leftSymbol = intern(left), rightSymbol = intern(right);
    merges.try_emplace(pairKey(leftSymbol, rightSymbol), Merge{int32_t(rank), intern(left + right)});
  }
  if (pretokenizer.rules().wholeWords) {
    for (int32_t id = 0; id < size(); ++id) {
      if (vocabulary.kinds[id] == TokenKind::normal) {
        wholeWords.insert_or_assign(pieces[id], id);
      }
    }
  }
  return {};
}

void Tokenizer::buildSpecials() {
  for (int32_t id = 0; id < size(); ++id) {
    TokenKind kind = vocabulary.kinds[id];
    bool always = kind == TokenKind::userDefined;
    if ((always || kind == TokenKind::control || kind == TokenKind::unknown) && !pieces[id].empty()) {
      specials.push_back({vocabulary.tokens[id], id, always});
    }
    if (kind == TokenKind::control && std::ranges::find(endTexts, pieces[id]) != std::end(endTexts)) {
      ends.push_back(id);
    }
  }
  std::ranges::sort(specials, [](const Special &a, const Special &b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
  });
  if (vocabulary.eos) {
    ends.push_back(*vocabulary.eos);
  }
  ends.insert(ends.end(), vocabulary.otherEnds.begin(), vocabulary.otherEnds.end());
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
}

bool Tokenizer::isEnd(int32_t id) const { return std::ranges::binary_search(ends, id); }

std::string_view Tokenizer::tokenText(int32_t id) const {
  return id >= 0 && id < size() ? std::string_view(vocabulary.tokens[id]) : std::string_view();
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// Merges the symbols of one word: always the adjacent pair of the lowest rank, the leftmost of equals. The symbols
/// form a linked list; a heap holds the pairs that were seen, and stale ones are skipped. n log n for a word of n.
class Tokenizer::Merger {
public:
  explicit Merger(const Tokenizer &tokenizer) : tokenizer(tokenizer) {}

  void run(std::string_view word, Encoding &out) {
    symbols.clear();
    heap.clear();
    int32_t size = int32_t(word.size());
    for (int32_t i = 0; i < size; ++i) {
      symbols.push_back({tokenizer.byteSymbols[uint8_t(word[i])], i - 1, i + 1 < size ? i + 1 : -1});
    }
    for (int32_t i = 0; i + 1 < size; ++i) {
      consider(i);
    }
    while (!heap.empty()) {
      std::ranges::pop_heap(heap, later);
      Candidate top = heap.back();
      heap.pop_back();
      Symbol &left = symbols[top.left];
      if (left.id != top.leftId || left.next < 0 || symbols[left.next].id != top.rightId) {
        continue;
      }
      Symbol &right = symbols[left.next];
      left.id = top.result;
      right.id = dead;
      left.next = right.next;
      if (left.next >= 0) {
        symbols[left.next].previous = top.left;
        consider(top.left);
      }
      if (left.previous >= 0) {
        consider(left.previous);
      }
    }
    for (int32_t i = 0; i >= 0; i = symbols[i].next) {
      emit(symbols[i].id, out);
    }
  }

private:
  static constexpr int32_t dead = -1;
  struct Symbol {
    int32_t id, previous, next;
  };
  struct Candidate {
    int32_t rank, left, leftId, rightId, result;
  };
  static bool later(const Candidate &a, const Candidate &b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  /// Puts the pair that starts at `left` on the heap, if it can be merged.
  void consider(int32_t left) {
    int32_t leftId = symbols[left].id, rightId = symbols[symbols[left].next].id;
    auto it = tokenizer.merges.find(pairKey(leftId, rightId));
    if (it != tokenizer.merges.end()) {
      heap.push_back({it->second.rank, left, leftId, rightId, it->second.result});
      std::ranges::push_heap(heap, later);
    }
  }

  void emit(int32_t symbol, Encoding &out) const {
    if (symbol < tokenizer.size()) {
      out.ids.push_back(symbol);
      return;
    }
    // A symbol without a token falls apart into the tokens of its bytes; a byte may have none.
    for (char c : tokenizer.extraSymbols[symbol - tokenizer.size()]) {
      int32_t byte = tokenizer.byteSymbols[uint8_t(c)];
      if (byte < tokenizer.size()) {
        out.ids.push_back(byte);
      } else {
        ++out.droppedBytes;
      }
    }
  }

  const Tokenizer &tokenizer;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

Status Tokenizer::encodePlain(std::string_view text, Merger &merger, Encoding &out) const {
  KVC_ASSIGN_OR_RETURN(std::vector<uint32_t> wordEnds, pretokenizer.split(text));
  uint32_t start = 0;
  for (uint32_t end : wordEnds) {
    std::string_view word = text.substr(start, end - start);
    start = end;
    auto whole = wholeWords.find(word);
    if (whole != wholeWords.end()) {
      out.ids.push_back(whole->second);
    } else {
      merger.run(word, out);
    }
  }
  return {};
}

Result<Encoding> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  struct Part {
    std::string_view text;
    int32_t special; ///< -1: plain text
  };
  std::vector<Part> parts = {{text, -1}};
  for (const Special &special : specials) {
    if (!special.always && !options.parseSpecial) {
      continue;
    }
    std::vector<Part> next;
    for (const Part &part : parts) {
      std::string_view rest = part.text;
      while (part.special < 0) {
        size_t at = rest.find(special.text);
        if (at == std::string_view::npos) {
          break;
        }
        if (at > 0) {
          next.push_back({rest.substr(0, at), -1});
        }
        next.push_back({rest.substr(at, special.text.size()), special.id});
        rest.remove_prefix(at + special.text.size());
      }
      if (!rest.empty()) {
        next.push_back({rest, part.special});
      }
    }
    parts = std::move(next);
  }
  Encoding out;
  if (options.addBos && addsBos()) {
    out.ids.push_back(*vocabulary.bos);
  }
  Merger merger(*this);
  for (const Part &part : parts) {
    if (part.special >= 0) {
      out.ids.push_back(part.special);
    } else {
      KVC_RETURN_IF_ERROR(encodePlain(part.text, merger, out));
    }
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool showSpecial) const {
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= size()) {
      return Status(StatusCode::outOfRange,
                    fmt::format("expects token ids from 0 to {}, but got {} at index {}", size() - 1, ids[i], i));
    }
    if (showSpecial || vocabulary.kinds[ids[i]] != TokenKind::control) {
      out += pieces[ids[i]];
    }
  }
  return out;
}

/// Bytes at the end of `text` that are the start of a UTF-8 character which more bytes could complete.
static size_t incompleteTail(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    auto lead = uint8_t(text[text.size() - n]);
    if (U8_IS_TRAIL(lead)) {
      continue;
    }
    if (!U8_IS_LEAD(lead) || size_t(U8_COUNT_TRAIL_BYTES(lead)) < n) {
      return 0;
    }
    // A second byte that the lead byte does not allow makes the sequence ill-formed for good.
    const auto *bytes = reinterpret_cast<const uint8_t *>(text.data()) + text.size() - n;
    bool possible = n < 2 || (lead >= 0xf0   ? U8_IS_VALID_LEAD4_AND_T1(lead, bytes[1])
                              : lead >= 0xe0 ? U8_IS_VALID_LEAD3_AND_T1(lead, bytes[1])
                                             : true);
    return possible ? n : 0;
  }
  return 0;
}

Result<std::string> StreamDecoder::push(int32_t id) {
  KVC_ASSIGN_OR_RETURN(std::string piece, tokenizer->decode(std::span(&id, 1), showSpecial));
  pending += piece;
  std::string ready = pending.substr(0, pending.size() - incompleteTail(pending));
  pending.erase(0, ready.size());
  return ready;
}

std::string StreamDecoder::finish() { return std::exchange(pending, {}); }

} // namespace kvc::text

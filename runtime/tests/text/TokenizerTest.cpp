//===- TokenizerTest.cpp - Tests of the byte-level BPE --------------------===//
//
// A small vocabulary by hand, damaged vocabularies, and the cases of the real
// model, whose ids another engine made (test/Inputs/tokenizer-smollm2.json).
//
//===----------------------------------------------------------------------===//
#include "text/Tokenizer.h"
#include "gguf/Builder.h"
#include "support/Model.h"

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace kvc::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Words of a text under some rules.
std::vector<std::string> words(std::string_view pre, std::string_view text) {
  Result<Pretokenizer> rules = Pretokenizer::create(pre);
  EXPECT_TRUE(rules.ok()) << rules.message();
  std::vector<std::string> out;
  uint32_t start = 0;
  Result<std::vector<uint32_t>> ends = rules->split(text);
  EXPECT_TRUE(ends.ok()) << ends.message();
  for (uint32_t end : *ends) {
    out.emplace_back(text.substr(start, end - start));
    start = end;
  }
  EXPECT_EQ(start, text.size());
  return out;
}

TEST(Pretokenizer, Gpt2) {
  EXPECT_THAT(words("gpt-2", ""), IsEmpty());
  EXPECT_THAT(words("gpt-2", "I'm here,  12 ok"), ElementsAre("I", "'m", " here", ",", " ", " 12", " ok"));
  EXPECT_THAT(words("gpt-2", "SHE'S"), ElementsAre("SHE", "'", "S"));
  EXPECT_THAT(words("gpt-2", "a\n\n b"), ElementsAre("a", "\n\n", " b"));
  EXPECT_THAT(words("gpt-2", "a \n"), ElementsAre("a", " \n"));
}

TEST(Pretokenizer, SmolLMCutsDigitsFirst) {
  EXPECT_THAT(words("smollm", "x 12"), ElementsAre("x", " ", "1", "2"));
  EXPECT_THAT(words("smollm", "a²b"), ElementsAre("a", "²", "b"));
  EXPECT_THAT(words("smollm", "   7"), ElementsAre("   ", "7"));
}

TEST(Pretokenizer, LlamaAndQwen) {
  EXPECT_THAT(words("llama-bpe", "1234567 SHE'S\n\n x"), ElementsAre("123", "456", "7", " SHE", "'S", "\n\n", " x"));
  EXPECT_THAT(words("qwen2", "123 a.b\n"), ElementsAre("1", "2", "3", " a", ".b", "\n"));
  EXPECT_THAT(words("qwen2", "!?\r\nx"), ElementsAre("!?\r\n", "x"));
}

TEST(Pretokenizer, BytesThatAreNoUtf8AreSymbols) {
  EXPECT_THAT(words("gpt-2", "a\xff\xfe b\xe2\x82"), ElementsAre("a", "\xff\xfe", " b", "\xe2\x82"));
  EXPECT_THAT(words("gpt-2", "\xf0\x9f\x8d\x95x\xed\xa0\x80"), ElementsAre("\xf0\x9f\x8d\x95", "x", "\xed\xa0\x80"));
}

TEST(Pretokenizer, LongRunsDoNotOverflow) {
  for (char c : {' ', 'a', '7', '!', '\n'}) {
    std::string text(1 << 18, c);
    for (const char *pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
      EXPECT_FALSE(words(pre, text).empty()) << pre;
    }
  }
}

TEST(Pretokenizer, UnknownNamesAreNamed) {
  Result<Pretokenizer> rules = Pretokenizer::create("tekken");
  EXPECT_EQ(rules.status().code(), StatusCode::unsupported);
  EXPECT_THAT(rules.message(), HasSubstr("'smollm'"));
  EXPECT_THAT(rules.message(), HasSubstr("but got 'tekken'"));
}

/// Letters a to y, control token <end>, user-defined token <br>, the bytes of the euro sign; merges of "aa", "ab",
/// "aab" and "xy", of which "ab" and "xy" are no tokens.
Vocabulary smallVocabulary() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  auto add = [&](std::string text, TokenKind kind = TokenKind::normal) {
    v.tokens.push_back(std::move(text));
    v.kinds.push_back(kind);
  };
  add("<end>", TokenKind::control);
  add("<br>", TokenKind::userDefined);
  for (char c = 'a'; c <= 'y'; ++c) {
    add(std::string(1, c));
  }
  for (const char *text : {"<", ">", "Ġ", "aa", "aab", "â", "Ĥ", "¬"}) {
    add(text);
  }
  v.merges = {"a a", "a b", "aa b", "x y"};
  v.eos = 0;
  return v;
}
int32_t letter(char c) { return 2 + (c - 'a'); }
enum : int32_t { lt = 27, gt, space, aa, aab, euro0, euro1, euro2 };

Tokenizer small() {
  Result<Tokenizer> t = Tokenizer::create(smallVocabulary());
  EXPECT_TRUE(t.ok()) << t.message();
  return *std::move(t);
}

TEST(Tokenizer, MergesByRankLeftmostFirst) {
  Tokenizer t = small();
  EXPECT_THAT(t.encode("")->ids, IsEmpty());
  EXPECT_THAT(t.encode("aaa")->ids, ElementsAre(aa, letter('a')));
  EXPECT_THAT(t.encode("aaaa")->ids, ElementsAre(aa, aa));
  EXPECT_THAT(t.encode("aab")->ids, ElementsAre(aab));
  EXPECT_THAT(t.encode("aaab")->ids, ElementsAre(aa, letter('a'), letter('b')));
  EXPECT_THAT(t.encode("a a")->ids, ElementsAre(letter('a'), space, letter('a')));
}

TEST(Tokenizer, MergedSymbolsWithoutATokenFallApart) {
  EXPECT_THAT(small().encode("ab")->ids, ElementsAre(letter('a'), letter('b')));
  EXPECT_THAT(small().encode("xy")->ids, ElementsAre(letter('x'), letter('y')));
}

TEST(Tokenizer, BytesWithoutATokenAreCounted) {
  Result<Encoding> e = small().encode("azb");
  ASSERT_TRUE(e.ok());
  EXPECT_THAT(e->ids, ElementsAre(letter('a'), letter('b')));
  EXPECT_EQ(e->droppedBytes, 1u);
}

TEST(Tokenizer, SpecialTokens) {
  Tokenizer t = small();
  EXPECT_THAT(t.encode("a<end>b", {.parseSpecial = true})->ids, ElementsAre(letter('a'), 0, letter('b')));
  EXPECT_THAT(t.encode("<end>")->ids, ElementsAre(lt, letter('e'), letter('n'), letter('d'), gt));
  EXPECT_THAT(t.encode("<br><br>")->ids, ElementsAre(1, 1));
  EXPECT_EQ(*t.decode(std::vector<int32_t>{letter('a'), 0, 1}), "a<end><br>");
  EXPECT_EQ(*t.decode(std::vector<int32_t>{letter('a'), 0, 1}, false), "a<br>");
  EXPECT_TRUE(t.isEnd(0));
  EXPECT_FALSE(t.isEnd(1));
}

TEST(Tokenizer, Bos) {
  Vocabulary v = smallVocabulary();
  v.bos = 1;
  v.addBos = true;
  Result<Tokenizer> t = Tokenizer::create(v);
  ASSERT_TRUE(t.ok());
  EXPECT_THAT(t->encode("a")->ids, ElementsAre(1, letter('a')));
  EXPECT_THAT(t->encode("a", {.addBos = false})->ids, ElementsAre(letter('a')));
}

TEST(Tokenizer, WholeWordsOfLlama) {
  Vocabulary v = smallVocabulary();
  v.pre = "llama-bpe";
  v.tokens.push_back("ba");
  v.kinds.push_back(TokenKind::normal);
  Result<Tokenizer> t = Tokenizer::create(v);
  ASSERT_TRUE(t.ok());
  EXPECT_THAT(t->encode("ba")->ids, ElementsAre(t->size() - 1));
}

TEST(Tokenizer, DecodeRefusesUnknownIds) {
  Tokenizer t = small();
  for (int32_t id : {-1, t.size(), std::numeric_limits<int32_t>::min()}) {
    Result<std::string> text = t.decode(std::vector<int32_t>{0, id});
    EXPECT_EQ(text.status().code(), StatusCode::outOfRange);
    EXPECT_THAT(text.message(), HasSubstr("at index 1"));
  }
}

TEST(Tokenizer, StreamHoldsBackIncompleteCharacters) {
  Tokenizer t = small();
  StreamDecoder stream(t);
  EXPECT_EQ(*stream.push(letter('a')), "a");
  EXPECT_EQ(*stream.push(euro0), "");
  EXPECT_EQ(*stream.push(euro1), "");
  EXPECT_EQ(*stream.push(euro2), "€");
  EXPECT_EQ(*stream.push(euro0), "");
  EXPECT_EQ(*stream.push(letter('k')), "\xe2k");
  EXPECT_EQ(*stream.push(euro1), "\x82");
  EXPECT_EQ(*stream.push(euro0), "");
  EXPECT_EQ(stream.finish(), "\xe2");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_FALSE(stream.push(1000).ok());
}

TEST(Tokenizer, RefusesWhatItCannotRead) {
  auto error = [](auto change) {
    Vocabulary v = smallVocabulary();
    change(v);
    Result<Tokenizer> t = Tokenizer::create(v);
    EXPECT_FALSE(t.ok());
    return t.message();
  };
  EXPECT_THAT(error([](Vocabulary &v) { v.model = "llama"; }), HasSubstr("but got 'llama'"));
  EXPECT_THAT(error([](Vocabulary &v) { v.pre = ""; }), HasSubstr("but got ''"));
  EXPECT_THAT(error([](Vocabulary &v) { v.tokens.clear(); }), HasSubstr("got 0"));
  EXPECT_THAT(error([](Vocabulary &v) { v.kinds.pop_back(); }), HasSubstr("a kind for each"));
  for (const char *merge : {"", "a", " ", "a ", "ab"}) {
    EXPECT_THAT(error([&](Vocabulary &v) { v.merges.push_back(merge); }), HasSubstr("merge 4"));
  }
}

TEST(Vocabulary, FromGgufChecksItsArrays) {
  auto error = [](auto fill) -> std::string {
    gguf::test::Builder b;
    b.key("tokenizer.ggml.model", "gpt2");
    b.key("tokenizer.ggml.pre", "gpt-2");
    fill(b);
    std::string bytes = b.finish();
    Result<gguf::File> file = gguf::File::parse(gguf::test::asBytes(bytes), "t.gguf");
    EXPECT_TRUE(file.ok()) << file.message();
    Result<Tokenizer> t = Tokenizer::fromGguf(*file);
    return t.ok() ? "" : t.message();
  };
  const std::vector<std::string> tokens = {"a", "b"};
  EXPECT_THAT(error([](auto &) {}), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_EQ(error([&](auto &b) { b.keyArray("tokenizer.ggml.tokens", tokens); }), "");
  EXPECT_THAT(error([&](auto &b) {
                b.keyArray("tokenizer.ggml.tokens", tokens);
                b.template keyArray<int32_t>("tokenizer.ggml.token_type", {1});
              }),
              HasSubstr("each of the 2 tokens"));
  EXPECT_THAT(error([&](auto &b) {
                b.keyArray("tokenizer.ggml.tokens", tokens);
                b.template keyArray<int32_t>("tokenizer.ggml.token_type", {1, 9});
              }),
              HasSubstr("for token 1, but got 9"));
  EXPECT_THAT(error([&](auto &b) {
                b.keyArray("tokenizer.ggml.tokens", tokens);
                b.key("tokenizer.ggml.eos_token_id", uint32_t(2));
              }),
              HasSubstr("an id below 2"));
}

//===----------------------------------------------------------------------===//
// The real model
//===----------------------------------------------------------------------===//

class SmolLM2 : public ::testing::Test {
protected:
  void SetUp() override {
    std::string path = kvc::test::smollm2Path();
    if (path.empty()) {
      GTEST_SKIP() << "no model: run utils/setup or set KVC_SMOLLM2_GGUF";
    }
    Result<gguf::File> file = gguf::File::open(path);
    ASSERT_TRUE(file.ok()) << file.message();
    Result<Tokenizer> t = Tokenizer::fromGguf(*file);
    ASSERT_TRUE(t.ok()) << t.message();
    tokenizer.emplace(*std::move(t));
  }
  std::optional<Tokenizer> tokenizer;
};

std::string fromHex(const std::string &hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

TEST_F(SmolLM2, MatchesTheReferenceIds) {
  std::ifstream stream(KVC_TEST_INPUTS "/tokenizer-smollm2.json");
  ASSERT_TRUE(stream.good());
  int cases = 0;
  for (const auto &row : nlohmann::json::parse(stream)) {
    std::string name = row["name"], text = fromHex(row["utf8_hex"]);
    auto plain = tokenizer->encode(text), special = tokenizer->encode(text, {.parseSpecial = true});
    ASSERT_TRUE(plain.ok() && special.ok()) << name;
    EXPECT_EQ(plain->ids, row["ids"].get<std::vector<int32_t>>()) << name;
    EXPECT_EQ(special->ids, row["ids_special"].get<std::vector<int32_t>>()) << name;
    std::string want = row.contains("decoded_hex") ? fromHex(row["decoded_hex"]) : text;
    EXPECT_EQ(*tokenizer->decode(plain->ids), want) << name;
    EXPECT_EQ(*tokenizer->decode(special->ids), want) << name;
    EXPECT_EQ(plain->droppedBytes == 0, row["roundtrip"].get<bool>()) << name;
    StreamDecoder decoder(*tokenizer, true);
    std::string streamed;
    for (int32_t id : plain->ids) {
      streamed += *decoder.push(id);
    }
    EXPECT_EQ(streamed + decoder.finish(), want) << name;
    ++cases;
  }
  EXPECT_EQ(cases, 33);
}

TEST_F(SmolLM2, KnowsItsEndTokens) {
  EXPECT_THAT(tokenizer->endTokens(), ElementsAre(0, 2, 4));
  EXPECT_FALSE(tokenizer->addsBos());
}

TEST_F(SmolLM2, RandomBytesRoundTripUpToDroppedOnes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 40, '\0');
    for (char &c : text) {
      c = char(random() % 3 ? random() % 128 : random());
    }
    Result<Encoding> e = tokenizer->encode(text, {.parseSpecial = round % 2 == 0});
    ASSERT_TRUE(e.ok());
    std::string back = *tokenizer->decode(e->ids);
    EXPECT_EQ(back.size() + e->droppedBytes, text.size());
    if (e->droppedBytes == 0) {
      EXPECT_EQ(back, text);
    }
  }
}

TEST_F(SmolLM2, LongTextsAreFast) {
  auto seconds = [&](const std::string &text) {
    auto start = std::chrono::steady_clock::now();
    Result<Encoding> e = tokenizer->encode(text, {.parseSpecial = true});
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(e.ok());
    EXPECT_EQ(*tokenizer->decode(e->ids), text);
    return elapsed.count();
  };
  std::string text;
  while (text.size() < (4u << 20)) {
    text += "In the beginning 42 people didn't say: \"hello\", nor anything else of note;\n  they left.\n";
  }
  // A quadratic merge of the single word would take an hour; the bound leaves room for sanitizers and busy machines.
  constexpr double limit = 60;
  double many = seconds(text), one = seconds(std::string(1u << 20, 'a'));
  std::printf("4 MiB of words: %.2f s, one word of 1 MiB: %.2f s\n", many, one);
  EXPECT_LT(many, limit);
  EXPECT_LT(one, limit);
}

} // namespace
} // namespace kvc::text

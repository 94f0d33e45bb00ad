//===- ChatTemplateTest.cpp - Tests of chat templates ---------------------===//
//
// Templates rendered by Jinja 3.1 with trim_blocks and lstrip_blocks
// (test/Inputs/chat-templates.json), what the subset refuses, and the prompts
// of the real model, whose ids another engine made.
//
//===----------------------------------------------------------------------===//
#include "text/ChatTemplate.h"
#include "support/Model.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

namespace kvc::text {
namespace {

using ::testing::HasSubstr;

std::vector<ChatMessage> toMessages(const nlohmann::json &rows) {
  std::vector<ChatMessage> messages;
  for (const auto &row : rows) {
    messages.push_back({row["role"], row["content"]});
  }
  return messages;
}

nlohmann::json readJson(const char *name) {
  std::ifstream stream(std::string(KVC_TEST_INPUTS "/") + name);
  EXPECT_TRUE(stream.good()) << name;
  return nlohmann::json::parse(stream);
}

const std::vector<ChatMessage> hello = {{"user", "Hi"}};

/// The message of the failure of a template.
std::string failure(std::string_view source) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) {
    return parsed.message();
  }
  Result<std::string> text = parsed->render(hello);
  EXPECT_FALSE(text.ok()) << source << " gave " << *text;
  return text.message();
}

TEST(ChatTemplate, RendersAsJinjaDoes) {
  nlohmann::json rows = readJson("chat-templates.json");
  EXPECT_GT(rows.size(), 25u);
  for (const auto &row : rows) {
    std::string name = row["name"];
    Result<ChatTemplate> parsed = ChatTemplate::parse(row["template"].get<std::string>());
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.message();
    Result<std::string> text =
        parsed->render(toMessages(row["messages"]),
                       {.addGenerationPrompt = row["add_generation_prompt"], .bosToken = "<s>", .eosToken = "</s>"});
    ASSERT_TRUE(text.ok()) << name << ": " << text.message();
    EXPECT_EQ(*text, row["expected"].get<std::string>()) << name;
  }
}

TEST(ChatTemplate, NamesWhatItDoesNotUnderstand) {
  EXPECT_THAT(failure("a\n{{ messages | tojson }}"), HasSubstr("line 2: the filter 'tojson' is not understood"));
  EXPECT_THAT(failure("{% macro m() %}{% endmacro %}"), HasSubstr("but got 'macro'"));
  EXPECT_THAT(failure("{{ strftime_now('%d') }}"), HasSubstr("the function 'strftime_now'"));
  EXPECT_THAT(failure("{{ 'a'.split(',') }}"), HasSubstr("the method 'split'"));
  EXPECT_THAT(failure("{{ 4 is divisibleby 2 }}"), HasSubstr("the end of the tag"));
  EXPECT_THAT(failure("{{ 4 is even }}"), HasSubstr("the test 'even'"));
  EXPECT_THAT(failure("{{ messages }}"), HasSubstr("printing a list"));
  EXPECT_THAT(failure("{{ 3 / 2 }}"), HasSubstr("the operator '/'"));
  EXPECT_THAT(failure("{{ {'a': 1} }}"), HasSubstr("character '{'"));
  EXPECT_THAT(failure("{{ messages[::2] }}"), HasSubstr("expects ']'"));
  EXPECT_THAT(failure("{{ 'a\\x' }}"), HasSubstr("escape"));
  EXPECT_THAT(failure("{% for a, b in messages %}{% endfor %}"), HasSubstr("expects 'in'"));
}

TEST(ChatTemplate, RefusesWhatIsNoTemplate) {
  for (const char *source : {"{{", "{{ 'a", "{%", "{% if", "{% if true %}", "{% for m in messages %}", "{% endif %}",
                             "{# x", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ a. }}", "{% set 1 = 2 %}", "{% set x %}",
                             "{{ 99999999999999999999 }}", "{% if true %}{% endfor %}", "{{ a b }}"}) {
    Result<ChatTemplate> parsed = ChatTemplate::parse(source);
    EXPECT_FALSE(parsed.ok()) << source;
    EXPECT_THAT(parsed.message(), HasSubstr("chat template, line 1")) << source;
  }
}

TEST(ChatTemplate, ReportsWhatCannotBeComputed) {
  EXPECT_THAT(failure("{{ raise_exception('roles must alternate') }}"), HasSubstr("roles must alternate"));
  EXPECT_THAT(failure("\n\n{{ 'a' + 1 }}"), HasSubstr("line 3: '+' is not defined for a string and an integer"));
  EXPECT_THAT(failure("{{ nothing.at.all }}"), HasSubstr("before 'at', but got an undefined value"));
  EXPECT_THAT(failure("{{ 1 % 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(failure("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(failure("{% for m in 3 %}{% endfor %}"), HasSubstr("a list to loop over"));
  EXPECT_THAT(failure("{% set messages.x = 1 %}"), HasSubstr("expects a namespace"));
  EXPECT_THAT(failure("{% set n = namespace() %}{% set n.self = n %}"), HasSubstr("a map as 'n.self'"));
  EXPECT_THAT(failure("{% set n = namespace() %}{% set n.self = [n] %}"), HasSubstr("a list as 'n.self'"));
}

TEST(ChatTemplate, BoundsItsWork) {
  auto repeated = [](const std::string &text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) {
      out += text;
    }
    return out;
  };
  EXPECT_THAT(failure("{{ " + repeated("(", 100000)), HasSubstr("expects '}}'"));
  EXPECT_THAT(failure("{{ " + repeated("(", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure("{{ " + repeated("not ", 100000) + "1 }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure("{{ " + repeated("1 if 1 else ", 100000) + "1 }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure("{{ 1" + repeated(" + 1", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure("{{ a" + repeated(".b", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure(repeated("{% if 1 %}", 100000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(failure("{% if 1 %}" + repeated("{% elif 1 %}", 100000)), HasSubstr("nested too deeply"));
  // Strings and lists that double with each statement, and nested loops over a long list.
  EXPECT_THAT(failure("{% set a = 'aaaaaaaa' %}" + repeated("{% set a = a + a %}", 60)), HasSubstr("too long"));
  EXPECT_THAT(failure("{% set a = [1] %}" + repeated("{% set a = a + a %}", 60)), HasSubstr("too long"));
  EXPECT_THAT(failure("{% set a = [1] %}" + repeated("{% set a = a + a %}", 14) +
                      "{% for b in a %}{% for c in a %}{% endfor %}{% endfor %}"),
              HasSubstr("works on"));
}

TEST(ChatTemplate, DamagedTemplatesNeverCrash) {
  nlohmann::json rows = readJson("chat-templates.json");
  std::mt19937 random(5);
  const std::string symbols = "{}%#-'\"()[]|.+ \nifelsor";
  for (int round = 0; round < 5000; ++round) {
    std::string source = rows[random() % rows.size()]["template"];
    for (unsigned n = random() % 6; n > 0 && !source.empty(); --n) {
      size_t at = random() % source.size();
      if (random() % 2) {
        source[at] = symbols[random() % symbols.size()];
      } else {
        source.erase(at, random() % 5);
      }
    }
    Result<ChatTemplate> parsed = ChatTemplate::parse(source);
    if (parsed.ok()) {
      Result<std::string> text = parsed->render(hello);
      EXPECT_TRUE(text.ok() || !text.message().empty());
    }
  }
}

TEST(ChatTemplate, MatchesThePromptsOfTheModel) {
  std::string path = kvc::test::smollm2Path();
  if (path.empty()) {
    GTEST_SKIP() << "no model: run utils/setup or set KVC_SMOLLM2_GGUF";
  }
  Result<gguf::File> file = gguf::File::open(path);
  ASSERT_TRUE(file.ok()) << file.message();
  Result<Tokenizer> tokenizer = Tokenizer::fromGguf(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  nlohmann::json rows = readJson("chat-smollm2.json");
  EXPECT_EQ(rows.size(), 4u);
  for (const auto &row : rows) {
    Result<Encoding> e = encodeChat(*tokenizer, toMessages(row["messages"]));
    ASSERT_TRUE(e.ok()) << e.message();
    EXPECT_EQ(e->ids, row["prompt_ids"].get<std::vector<int32_t>>()) << row["name"];
    EXPECT_EQ(*tokenizer->decode(e->ids), row["prompt"].get<std::string>()) << row["name"];
  }
}

TEST(ChatTemplate, AModelWithoutOneIsAnError) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {"a"};
  v.kinds = {TokenKind::normal};
  Result<Tokenizer> tokenizer = Tokenizer::create(v);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(encodeChat(*tokenizer, hello).message(), HasSubstr("tokenizer.chat_template"));
}

} // namespace
} // namespace kvc::text

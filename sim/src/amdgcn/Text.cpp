//===- Text.cpp - Reads assembler text ------------------------------------===//
#include "amdgcn/Text.h"

#include "common/Fault.h"

#include <charconv>
#include <cstdlib>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

const std::string *TextInst::modifier(std::string_view wanted) const {
  for (const auto &[key, value] : modifiers) {
    if (key == wanted) {
      return &value;
    }
  }
  return nullptr;
}

std::optional<int64_t> kvc::sim::amdgcn::integerOf(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) {
    text.remove_prefix(1);
  }
  const bool hex = text.starts_with("0x");
  if (hex) {
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return negative ? -int64_t(value) : int64_t(value);
}

std::vector<int64_t> kvc::sim::amdgcn::numbersOf(const std::string &text) {
  std::vector<int64_t> result;
  std::string_view rest = text;
  if (rest.starts_with('[') && rest.ends_with(']')) {
    rest = rest.substr(1, rest.size() - 2);
  }
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const auto value = integerOf(rest.substr(0, comma));
    if (!value) {
      fail(FaultKind::Unsupported, "expects a list of numbers, but got {}", text);
    }
    result.push_back(*value);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return result;
}

namespace {

struct Special {
  std::string_view name;
  uint16_t reg;
  uint8_t dwords;
};
constexpr Special specials[] = {
    {"vcc", sreg::Vcc, 2},
    {"vcc_lo", sreg::Vcc, 1},
    {"vcc_hi", sreg::Vcc + 1, 1},
    {"exec", sreg::Exec, 2},
    {"exec_lo", sreg::Exec, 1},
    {"exec_hi", sreg::Exec + 1, 1},
    {"m0", sreg::M0, 1},
    {"null", sreg::Null, 1},
    {"flat_scratch", sreg::FlatScratch, 2},
    {"flat_scratch_lo", sreg::FlatScratch, 1},
    {"flat_scratch_hi", sreg::FlatScratch + 1, 1},
    {"xnack_mask", sreg::XnackMask, 2},
    {"xnack_mask_lo", sreg::XnackMask, 1},
    {"xnack_mask_hi", sreg::XnackMask + 1, 1},
    {"src_scc", sreg::Scc, 1},
    {"scc", sreg::Scc, 1},
    {"src_vccz", sreg::Vccz, 1},
    {"src_execz", sreg::Execz, 1},
};

/// "v7", "v[0:3]", "v7.l" after the letters: the first register and how many, of `all` that there are.
bool readRegister(std::string_view text, size_t letters, int64_t all, TextOperand &to) {
  std::string_view rest = text.substr(letters);
  if (rest.ends_with(".l") || rest.ends_with(".h")) {
    to.half = rest.back() == 'h';
    rest.remove_suffix(2);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) {
    rest = rest.substr(1, rest.size() - 2);
    const size_t colon = rest.find(':');
    const auto first = integerOf(rest.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first : integerOf(rest.substr(colon + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= all) {
      return false;
    }
    to.reg = uint16_t(*first);
    to.dwords = uint8_t(*last - *first + 1);
    return true;
  }
  const auto number = integerOf(rest);
  if (!number || *number < 0 || *number >= all) {
    return false;
  }
  to.reg = uint16_t(*number);
  to.dwords = 1;
  return true;
}

bool isFloat(std::string_view text, double &value) {
  if (text.find('.') == std::string_view::npos) {
    return false;
  }
  const std::string copy(text);
  char *end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  return *end == '\0' && end != copy.c_str();
}

/// What an operand's text is; Word when it is none of a known kind.
TextOperand readOperand(std::string_view text) {
  TextOperand operand;
  operand.text = text;
  auto strip = [&](std::string_view before, std::string_view after, bool TextOperand::*flag) {
    if (text.size() > before.size() + after.size() && text.starts_with(before) && text.ends_with(after)) {
      text = text.substr(before.size(), text.size() - before.size() - after.size());
      operand.*flag = true;
    }
  };
  strip("neg(", ")", &TextOperand::neg);
  if (text.starts_with("lit(") && text.ends_with(")")) {
    text = text.substr(4, text.size() - 5);
  }
  const bool digit = text.size() > 1 && (std::isdigit(text[1]) || text[1] == '.');
  if (!digit) {
    strip("-", "", &TextOperand::neg);
  }
  strip("|", "|", &TextOperand::abs);
  strip("abs(", ")", &TextOperand::abs);
  strip("sext(", ")", &TextOperand::sext);
  using Kind = TextOperand::Kind;
  for (const Special &special : specials) {
    if (special.name == text) {
      operand.kind = Kind::Scalar;
      operand.reg = special.reg;
      operand.dwords = special.dwords;
      return operand;
    }
  }
  for (const auto &[name, aperture] :
       {std::pair("src_shared_base", ldsAperture), {"src_private_base", privateAperture}}) {
    if (text == name) {
      operand.kind = Kind::Integer;
      operand.integer = int64_t(aperture);
      return operand;
    }
  }
  if (text == "off") {
    operand.kind = Kind::Off;
    return operand;
  }
  if (const auto integer = integerOf(text)) {
    operand.kind = Kind::Integer;
    operand.integer = *integer;
    return operand;
  }
  if (isFloat(text, operand.number)) {
    operand.kind = Kind::Float;
    return operand;
  }
  if (text.starts_with("ttmp") && readRegister(text, 4, 16, operand)) {
    operand.kind = Kind::Scalar;
    operand.reg += sreg::Ttmp;
  } else if (text.starts_with("v") && readRegister(text, 1, firstAgpr, operand)) {
    operand.kind = Kind::Vector;
  } else if (text.starts_with("a") && readRegister(text, 1, firstAgpr, operand)) {
    operand.kind = Kind::Vector;
    operand.reg += firstAgpr;
  } else if (text.starts_with("s") && readRegister(text, 1, sreg::Vcc, operand)) {
    operand.kind = Kind::Scalar;
  }
  return operand;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// Splits outside of brackets.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '[' || c == '(';
    depth -= c == ']' || c == ')';
    if (depth == 0 && (separator == ' ' ? std::isspace(c) : c == separator)) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.push_back(trim(text.substr(begin)));
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  return parts;
}

} // namespace

TextInst kvc::sim::amdgcn::parseText(std::string_view text) {
  TextInst inst;
  text = trim(text);
  inst.text = text;
  if (const size_t dual = text.find(" :: "); dual != std::string_view::npos) {
    inst.second.push_back(parseText(text.substr(dual + 4)));
    text = text.substr(0, dual);
  }
  const size_t space = text.find_first_of(" \t");
  std::string_view name = text.substr(0, space);
  for (std::string_view suffix : {"_e64_dpp8", "_e64_dpp", "_e32", "_e64", "_dpp8", "_dpp", "_sdwa"}) {
    if (name.ends_with(suffix)) {
      inst.encoding = suffix.substr(1);
      name.remove_suffix(suffix.size());
      break;
    }
  }
  inst.name = name;
  if (space == std::string_view::npos || name == "s_delay_alu") {
    return inst;
  }
  for (std::string_view part : split(text.substr(space), ',')) {
    for (std::string_view word : split(part, ' ')) {
      TextOperand operand = readOperand(word);
      const bool listed = inst.modifiers.empty() && operand.kind != TextOperand::Kind::Word;
      if (listed) {
        inst.operands.push_back(std::move(operand));
        continue;
      }
      if (word == "&" || word == "|") {
        continue;
      }
      const size_t colon = word.find(':'), open = word.find('(');
      if (open != std::string_view::npos && (colon == std::string_view::npos || open < colon) && word.ends_with(')')) {
        inst.modifiers.emplace_back(word.substr(0, open), word.substr(open + 1, word.size() - open - 2));
      } else if (colon != std::string_view::npos) {
        inst.modifiers.emplace_back(word.substr(0, colon), word.substr(colon + 1));
      } else {
        inst.modifiers.emplace_back(word, "");
      }
    }
  }
  return inst;
}

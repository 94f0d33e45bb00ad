//===- ChatValues.cpp - Values of chat templates --------------------------===//
//
// Operators, and the tables of filters, tests and methods.
//
//===----------------------------------------------------------------------===//
#include "text/ChatValues.h"

#include <algorithm>
#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

namespace kvc::text::chat {

namespace {

Status wrong(std::string_view what, std::string_view wanted, const Value &got) {
  return {StatusCode::invalidArgument, fmt::format("expects {} for {}, but got {}", wanted, what, got.typeName())};
}

Status unknown(std::string_view kind, std::string_view name) {
  return {StatusCode::unsupported, fmt::format("the {} '{}' is not understood", kind, name.substr(0, 40))};
}

//===----------------------------------------------------------------------===//
// Functions on strings
//===----------------------------------------------------------------------===//

/// What Python's str.strip removes: white space and the four separators.
bool isStripped(UChar32 c) { return c >= 0 && (u_isUWhiteSpace(c) || (c >= 0x1c && c <= 0x1f)); }

std::string_view stripLeft(std::string_view text) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  int32_t i = 0, n = int32_t(text.size());
  while (i < n) {
    int32_t next = i;
    UChar32 c;
    U8_NEXT(bytes, next, n, c);
    if (!isStripped(c)) {
      break;
    }
    i = next;
  }
  return text.substr(size_t(i));
}

std::string_view stripRight(std::string_view text) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  int32_t n = int32_t(text.size());
  while (n > 0) {
    int32_t previous = n;
    UChar32 c;
    U8_PREV(bytes, 0, previous, c);
    if (!isStripped(c)) {
      break;
    }
    n = previous;
  }
  return text.substr(0, size_t(n));
}

std::string changeCase(const std::string &text, bool upper) {
  icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text);
  // The root locale: Python's case mapping does not depend on the user's.
  upper ? wide.toUpper(icu::Locale::getRoot()) : wide.toLower(icu::Locale::getRoot());
  std::string out;
  wide.toUTF8String(out);
  return out;
}

/// A function of a string and string arguments.
struct StringFunction {
  std::string_view name;
  size_t arguments;
  Value (*apply)(const std::string &text, std::span<const Value> arguments);
};

constexpr StringFunction stringFunctions[] = {
    {"strip", 0,
     [](const std::string &s, std::span<const Value>) -> Value { return std::string(stripLeft(stripRight(s))); }},
    {"lstrip", 0, [](const std::string &s, std::span<const Value>) -> Value { return std::string(stripLeft(s)); }},
    {"rstrip", 0, [](const std::string &s, std::span<const Value>) -> Value { return std::string(stripRight(s)); }},
    {"upper", 0, [](const std::string &s, std::span<const Value>) -> Value { return changeCase(s, true); }},
    {"lower", 0, [](const std::string &s, std::span<const Value>) -> Value { return changeCase(s, false); }},
    {"startswith", 1,
     [](const std::string &s, std::span<const Value> a) -> Value { return s.starts_with(a[0].as<std::string>()); }},
    {"endswith", 1,
     [](const std::string &s, std::span<const Value> a) -> Value { return s.ends_with(a[0].as<std::string>()); }},
};

Result<Value> applyString(const StringFunction &function, const Value &value, std::span<const Value> arguments) {
  if (!value.is<std::string>()) {
    return wrong(fmt::format("'{}'", function.name), "a string", value);
  }
  if (arguments.size() != function.arguments) {
    return Status(StatusCode::unsupported, fmt::format("expects {} arguments for '{}', but got {}", function.arguments,
                                                       function.name, arguments.size()));
  }
  for (const Value &argument : arguments) {
    if (!argument.is<std::string>()) {
      return wrong(fmt::format("an argument of '{}'", function.name), "a string", argument);
    }
  }
  return function.apply(value.as<std::string>(), arguments);
}

Result<Value> length(const Value &value) {
  if (value.is<std::string>()) {
    // In code points, as Python counts.
    const std::string &text = value.as<std::string>();
    const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
    int64_t count = 0;
    for (int32_t i = 0, n = int32_t(text.size()); i < n; ++count) {
      U8_FWD_1(bytes, i, n);
    }
    return Value(count);
  }
  if (value.isList()) {
    return Value(int64_t(value.list().size()));
  }
  if (value.isMap()) {
    return Value(int64_t(value.map().size()));
  }
  return wrong("'length'", "a string, list or map", value);
}

Result<bool> contains(const Value &container, const Value &value) {
  if (container.is<std::string>() && value.is<std::string>()) {
    return container.as<std::string>().find(value.as<std::string>()) != std::string::npos;
  }
  if (container.isList()) {
    return std::ranges::any_of(container.list(), [&](const Value &element) { return element.equals(value); });
  }
  if (container.isMap() && value.is<std::string>()) {
    return container.map().contains(value.as<std::string>());
  }
  return wrong("the right of 'in'", "a list, map or string", container);
}

struct Test {
  std::string_view name;
  bool (*apply)(const Value &value);
};
constexpr Test tests[] = {
    {"defined", [](const Value &v) { return !v.is<Undefined>(); }},
    {"undefined", [](const Value &v) { return v.is<Undefined>(); }},
    {"none", [](const Value &v) { return v.is<None>(); }},
    {"string", [](const Value &v) { return v.is<std::string>(); }},
    {"boolean", [](const Value &v) { return v.is<bool>(); }},
    {"mapping", [](const Value &v) { return v.isMap(); }},
    {"number", [](const Value &v) { return v.is<int64_t>() || v.is<bool>(); }},
    {"iterable", [](const Value &v) { return v.isList() || v.isMap() || v.is<std::string>() || v.is<Undefined>(); }},
    {"sequence", [](const Value &v) { return v.isList() || v.isMap() || v.is<std::string>() || v.is<Undefined>(); }},
};

/// Integers, and booleans as Python has them.
bool toInteger(const Value &value, int64_t &number) {
  if (value.is<bool>()) {
    number = value.as<bool>();
    return true;
  }
  if (value.is<int64_t>()) {
    number = value.as<int64_t>();
    return true;
  }
  return false;
}

Result<Value> arithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op.front()) {
  case '+':
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case '-':
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case '*':
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  default: // // and %, rounding towards minus infinity
    if (op == "/") {
      return unknown("operator", op);
    }
    if (b == 0) {
      return Status(StatusCode::invalidArgument, "division by zero");
    }
    if (b == -1) { // the one quotient that overflows
      overflow = op == "//" && __builtin_sub_overflow(0, a, &result);
      break;
    }
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
      --quotient;
      remainder += b;
    }
    result = op == "%" ? remainder : quotient;
  }
  if (overflow) {
    return Status(StatusCode::outOfRange, fmt::format("the result of '{}' does not fit 64 bits", op));
  }
  return Value(result);
}

template <typename T> bool compare(std::string_view op, const T &a, const T &b) {
  return op == "<" ? a < b : op == "<=" ? a <= b : op == ">" ? a > b : a >= b;
}

} // namespace

//===----------------------------------------------------------------------===//
// Value
//===----------------------------------------------------------------------===//

bool Value::truthy() const {
  int64_t number = 0;
  if (toInteger(*this, number)) {
    return number != 0;
  }
  if (is<std::string>()) {
    return !as<std::string>().empty();
  }
  return isList() ? !list().empty() : isMap() && !map().empty();
}

bool Value::equals(const Value &other) const {
  int64_t a = 0, b = 0;
  if (toInteger(*this, a) && toInteger(other, b)) {
    return a == b;
  }
  if (isList() && other.isList()) {
    return std::ranges::equal(list(), other.list(), [](const Value &x, const Value &y) { return x.equals(y); });
  }
  return held == other.held; // maps: the same object
}

std::string_view Value::typeName() const {
  constexpr std::string_view names[] = {"an undefined value", "none",   "a boolean", "an integer",
                                        "a string",           "a list", "a map"};
  return names[held.index()];
}

Result<std::string> Value::print() const {
  if (is<std::string>()) {
    return as<std::string>();
  }
  if (is<bool>()) {
    return std::string(as<bool>() ? "True" : "False");
  }
  if (is<int64_t>()) {
    return std::to_string(as<int64_t>());
  }
  if (is<Undefined>()) {
    return std::string();
  }
  if (is<None>()) {
    return std::string("None");
  }
  return Status(StatusCode::unsupported, fmt::format("printing {} is not understood", typeName()));
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

Result<Value> applyFilter(std::string_view name, const Value &value, std::span<const Value> arguments) {
  if (name == "trim") {
    name = "strip";
  } else if (name == "default") {
    if (arguments.size() != 1) {
      return Status(StatusCode::unsupported, "expects 1 argument for 'default'");
    }
    return value.is<Undefined>() ? arguments[0] : value;
  } else if ((name == "length" || name == "count") && arguments.empty()) {
    return length(value);
  } else if ((name == "first" || name == "last") && arguments.empty()) {
    if (!value.isList()) {
      return wrong(fmt::format("'{}'", name), "a list", value);
    }
    const List &list = value.list();
    return list.empty() ? Value() : name == "first" ? list.front() : list.back();
  } else if (name == "string" && arguments.empty()) {
    KVC_ASSIGN_OR_RETURN(std::string text, value.print());
    return Value(std::move(text));
  } else if (name != "upper" && name != "lower") {
    return unknown("filter", name);
  }
  return applyString(*std::ranges::find(stringFunctions, name, &StringFunction::name), value, arguments);
}

Result<bool> applyTest(std::string_view name, const Value &value) {
  auto *test = std::ranges::find(tests, name, &Test::name);
  if (test == std::end(tests)) {
    return unknown("test", name);
  }
  return test->apply(value);
}

Result<Value> applyMethod(std::string_view name, const Value &value, std::span<const Value> arguments) {
  if (name == "get" && value.isMap() && (arguments.size() == 1 || arguments.size() == 2) &&
      arguments[0].is<std::string>()) {
    auto it = value.map().find(arguments[0].as<std::string>());
    return it != value.map().end() ? it->second : arguments.size() == 2 ? arguments[1] : Value(None());
  }
  auto *function = std::ranges::find(stringFunctions, name, &StringFunction::name);
  if (function == std::end(stringFunctions)) {
    return unknown("method", name);
  }
  return applyString(*function, value, arguments);
}

Result<Value> applyBinary(std::string_view op, const Value &left, const Value &right) {
  if (op == "==" || op == "!=") {
    return Value(left.equals(right) == (op == "=="));
  }
  if (op == "in" || op == "not in") {
    KVC_ASSIGN_OR_RETURN(bool found, contains(right, left));
    return Value(found == (op == "in"));
  }
  if (op == "~") {
    KVC_ASSIGN_OR_RETURN(std::string a, left.print());
    KVC_ASSIGN_OR_RETURN(std::string b, right.print());
    return Value(a + b);
  }
  bool ordering = op.front() == '<' || op.front() == '>';
  if (left.is<std::string>() && right.is<std::string>()) {
    const std::string &a = left.as<std::string>(), &b = right.as<std::string>();
    if (ordering) {
      return Value(compare(op, a, b));
    }
    if (op == "+") {
      return Value(a + b);
    }
  }
  if (left.isList() && right.isList() && op == "+") {
    auto joined = std::make_shared<List>(left.list());
    joined->insert(joined->end(), right.list().begin(), right.list().end());
    return Value(std::move(joined));
  }
  int64_t a = 0, b = 0;
  if (toInteger(left, a) && toInteger(right, b)) {
    return ordering ? Value(compare(op, a, b)) : arithmetic(op, a, b);
  }
  return Status(StatusCode::invalidArgument,
                fmt::format("'{}' is not defined for {} and {}", op, left.typeName(), right.typeName()));
}

} // namespace kvc::text::chat

//===- ChatValues.h - Values of chat templates ------------------*- C++ -*-===//
//
// What expressions of a template compute with, and the tables of filters,
// tests and methods.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEXT_CHATVALUES_H
#define KVC_TEXT_CHATVALUES_H

#include "support/Result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace kvc::text::chat {

class Value;
using List = std::vector<Value>;
using Map = std::map<std::string, Value>;
struct Undefined {
  bool operator==(const Undefined &) const = default;
};
struct None {
  bool operator==(const None &) const = default;
};

/// Lists and maps are shared, as in Python; only a namespace is ever changed.
class Value {
public:
  std::variant<Undefined, None, bool, int64_t, std::string, std::shared_ptr<List>, std::shared_ptr<Map>> held;

  Value() = default;
  /// Exactly the types of `held`: a string literal would become a boolean.
  template <typename... Alternatives, typename T>
  static constexpr bool isOneOf(const std::variant<Alternatives...> *, const T *) {
    return (std::is_same_v<Alternatives, T> || ...);
  }
  template <typename T>
    requires(isOneOf(static_cast<decltype(held) *>(nullptr), static_cast<T *>(nullptr)))
  Value(T value) : held(std::move(value)) {}

  template <typename T> bool is() const { return std::holds_alternative<T>(held); }
  bool isList() const { return is<std::shared_ptr<List>>(); }
  bool isMap() const { return is<std::shared_ptr<Map>>(); }
  template <typename T> const T &as() const { return std::get<T>(held); }
  const List &list() const { return *std::get<std::shared_ptr<List>>(held); }
  Map &map() const { return *std::get<std::shared_ptr<Map>>(held); }

  bool truthy() const;
  bool equals(const Value &other) const;
  /// "a string", "undefined", ... for messages.
  std::string_view typeName() const;
  /// As {{ }} prints it. Errors: unsupported for lists and maps.
  Result<std::string> print() const;
};

/// value | name(arguments), value is name, value.name(arguments). Errors: unsupported for names that are not in the
/// tables, invalidArgument for values of a wrong type.
Result<Value> applyFilter(std::string_view name, const Value &value, std::span<const Value> arguments);
Result<bool> applyTest(std::string_view name, const Value &value);
Result<Value> applyMethod(std::string_view name, const Value &value, std::span<const Value> arguments);

/// left op right, for every binary operator but `and` and `or`.
Result<Value> applyBinary(std::string_view op, const Value &left, const Value &right);

} // namespace kvc::text::chat

#endif // KVC_TEXT_CHATVALUES_H

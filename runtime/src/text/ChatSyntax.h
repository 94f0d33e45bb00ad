//===- ChatSyntax.h - Syntax tree of chat templates -------------*- C++ -*-===//
//
// Nodes that the parser makes and the evaluator walks.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEXT_CHATSYNTAX_H
#define KVC_TEXT_CHATSYNTAX_H

#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::text::chat {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// An expression. `text` is a name, an operator or a string; operands are in order.
struct Expr {
  enum class Kind {
    undefined, ///< an absent part, as in x[:2]
    none,
    boolean,   ///< number
    integer,   ///< number
    string,    ///< text
    list,      ///< operands
    name,      ///< text
    attribute, ///< operands[0].text
    index,     ///< operands[0][operands[1]]
    slice,     ///< operands[0][operands[1]:operands[2]]
    call,      ///< text(operands...)
    method,    ///< operands[0].text(operands[1...])
    filter,    ///< operands[0] | text(operands[1...])
    test,      ///< operands[0] is text
    unary,     ///< text operands[0]
    binary,    ///< operands[0] text operands[1]
    choice,    ///< operands[0] if operands[1] else operands[2]
  };
  Kind kind;
  int line;
  std::string text;
  int64_t number = 0;
  std::vector<ExprPtr> operands;
  std::vector<std::string> keywords; ///< of a call: the names of its operands
};

/// A statement.
struct Node {
  enum class Kind {
    text,   ///< text
    output, ///< {{ expr }}
    loop,   ///< for text in expr (if condition): body
    branch, ///< if expr: body, else: other
    assign, ///< set text (.attribute) = expr
  };
  Kind kind;
  int line;
  std::string text;
  std::string attribute;
  ExprPtr expr, condition;
  std::vector<Node> body, other;
};

Result<std::vector<Node>> parseTemplate(std::string_view source);

/// "chat template, line 3: what"
Status error(StatusCode code, int line, const std::string &what);

} // namespace kvc::text::chat

#endif // KVC_TEXT_CHATSYNTAX_H

//===- ParserVariables.h - Tokens and variables of the parser ---*- C++ -*-===//
#ifndef KVCSIM_PTX_PARSERVARIABLES_H
#define KVCSIM_PTX_PARSERVARIABLES_H

#include "common/Fault.h"
#include "ptx/Lexer.h"
#include "ptx/Module.h"

#include <optional>

namespace kvc::sim::ptx {

/// The tokens of a module, one after another, and the declarations of its variables.
class VariableParser {
protected:
  explicit VariableParser(Module &module) : module(module), tokens(tokenize(module.name, *module.text)) {}

  const Token &token() const { return tokens[at]; }
  const Token &ahead(size_t n = 1) const { return tokens[std::min(at + n, tokens.size() - 1)]; }
  const Token &take() {
    const Token &taken = tokens[at];
    if (taken.kind != TokenKind::End) {
      ++at;
    }
    return taken;
  }
  bool accept(std::string_view punctuation) {
    if (token().is(punctuation)) {
      take();
      return true;
    }
    return false;
  }
  bool acceptDirective(std::string_view text) {
    if (token().kind == TokenKind::Directive && token().text == text) {
      take();
      return true;
    }
    return false;
  }
  [[noreturn]] void expected(std::string_view what) const {
    fail(FaultKind::Syntax, "{}:{}: expects {}, but got {}", module.name, token().line, what,
         token().kind == TokenKind::End ? std::string_view("the end of the file") : token().text);
  }
  void expect(std::string_view punctuation) {
    if (!accept(punctuation)) {
      expected(fmt::format("'{}'", punctuation));
    }
  }
  std::string_view takeName(std::string_view what) {
    if (token().kind != TokenKind::Name) {
      expected(what);
    }
    return take().text;
  }
  uint64_t takeInteger(std::string_view what) {
    if (token().kind != TokenKind::Integer) {
      expected(what);
    }
    return take().value;
  }

  std::optional<Space> acceptSpace();
  Type takeType();
  /// After the state space: `.align 4 .b8 name[16] = {...}`.
  std::unique_ptr<Variable> parseVariable(Space space, bool isExtern) {
    return parseDeclarator(space, isExtern, parseDeclaration());
  }
  /// The same for a list of names up to `;`: calls add(variable) for each.
  template <typename F> void parseVariables(Space space, bool isExtern, F add) {
    const Declaration declaration = parseDeclaration();
    do {
      add(parseDeclarator(space, isExtern, declaration));
    } while (accept(","));
    expect(";");
  }

  Module &module;
  std::vector<Token> tokens;
  size_t at = 0;

private:
  /// What all names of a list have.
  struct Declaration {
    uint64_t align = 0;
    uint64_t vector = 1;
    Type type{};
  };
  Declaration parseDeclaration();
  std::unique_ptr<Variable> parseDeclarator(Space space, bool isExtern, const Declaration &declaration);
  void parseInitial(Variable &variable, unsigned depth = 16);
  uint64_t scalarBits(Type type, const Token &literal, bool minus) const;
};

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_PARSERVARIABLES_H

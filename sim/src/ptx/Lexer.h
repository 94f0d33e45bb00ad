//===- Lexer.h - Tokens of PTX ----------------------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_LEXER_H
#define KVCSIM_PTX_LEXER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvc::sim::ptx {

enum class TokenKind : uint8_t {
  End,
  Name,      ///< identifiers; an opcode comes with its modifiers: `ld.global.u32`, `%tid.x`
  Directive, ///< `.entry`, `.b32`: the text has the dot
  Integer,
  Float32, ///< `0f3f800000`: `value` has the 32 bits
  Float64, ///< `0d...` or decimal: `value` has the bits of the double
  String,
  Punctuation,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  uint64_t value = 0;
  uint32_t line = 0;

  bool is(std::string_view punctuation) const { return kind == TokenKind::Punctuation && text == punctuation; }
};

/// Splits a whole module; comments are dropped. The text must outlive the tokens. Faults name `name` and the line.
std::vector<Token> tokenize(std::string_view name, std::string_view text);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_LEXER_H

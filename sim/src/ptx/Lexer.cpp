//===- Lexer.cpp - Tokens of PTX ------------------------------------------===//
#include "ptx/Lexer.h"

#include "common/Fault.h"

#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <string>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

class Lexer {
public:
  Lexer(std::string_view name, std::string_view text) : name(name), text(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(text.size() / 5);
    while (true) {
      skipBlanks();
      tokens.push_back(next());
      if (tokens.back().kind == TokenKind::End) {
        return tokens;
      }
    }
  }

private:
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  static bool isWordStart(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
  }
  static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

  void skipBlanks() {
    while (at < text.size()) {
      const char c = peek();
      if (c == '\n') {
        ++line;
        ++at;
      } else if (std::isspace(static_cast<unsigned char>(c)) || (c == '\0' && at + 1 == text.size())) {
        ++at;
      } else if (c == '/' && peek(1) == '/') {
        while (at < text.size() && peek() != '\n') {
          ++at;
        }
      } else if (c == '/' && peek(1) == '*') {
        const uint32_t begin = line;
        at += 2;
        while (!(peek() == '*' && peek(1) == '/')) {
          if (at >= text.size()) {
            fail(FaultKind::Syntax, "{}:{}: expects the end of the comment, but got the end of the file", name, begin);
          }
          line += peek() == '\n';
          ++at;
        }
        at += 2;
      } else {
        break;
      }
    }
  }

  Token make(TokenKind kind, size_t begin, uint64_t value = 0) const {
    return {kind, text.substr(begin, at - begin), value, line};
  }

  /// A word; `::` joins when a word follows, and so does a dot where it begins a modifier.
  void takeWord(bool dots) {
    ++at;
    while (true) {
      while (isWord(peek())) {
        ++at;
      }
      if (dots && peek() == '.' && isWord(peek(1))) {
        at += 2;
      } else if (peek() == ':' && peek(1) == ':' && isWord(peek(2))) {
        at += 3;
      } else {
        return;
      }
    }
  }

  Token number() {
    const size_t begin = at;
    if (peek() == '0' && (peek(1) == 'f' || peek(1) == 'F' || peek(1) == 'd' || peek(1) == 'D')) {
      const bool wide = peek(1) == 'd' || peek(1) == 'D';
      at += 2;
      const size_t digits = at;
      while (std::isxdigit(static_cast<unsigned char>(peek()))) {
        ++at;
      }
      if (at - digits != (wide ? 16 : 8)) {
        fail(FaultKind::Syntax, "{}:{}: expects {} hexadecimal digits after {}, but got {}", name, line, wide ? 16 : 8,
             text.substr(begin, 2), at - digits);
      }
      const std::string hex(text.substr(digits, at - digits));
      return make(wide ? TokenKind::Float64 : TokenKind::Float32, begin, std::strtoull(hex.c_str(), nullptr, 16));
    }
    int base = 10;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
      base = 16;
      at += 2;
    } else if (peek() == '0' && (peek(1) == 'b' || peek(1) == 'B')) {
      base = 2;
      at += 2;
    } else if (peek() == '0' && std::isdigit(static_cast<unsigned char>(peek(1)))) {
      base = 8;
    }
    const size_t digits = at;
    while (base == 16 ? std::isxdigit(static_cast<unsigned char>(peek()))
                      : std::isdigit(static_cast<unsigned char>(peek()))) {
      ++at;
    }
    if (base != 16 && (peek() == '.' || peek() == 'e' || peek() == 'E')) {
      return decimal(begin);
    }
    const std::string body(text.substr(digits, at - digits));
    char *end = nullptr;
    errno = 0;
    const uint64_t value = std::strtoull(body.c_str(), &end, base);
    if (body.empty() || *end || errno) {
      fail(FaultKind::Syntax, "{}:{}: expects a 64-bit integer, but got {}", name, line,
           text.substr(begin, at - begin));
    }
    Token token = make(TokenKind::Integer, begin, value);
    if (peek() == 'U') {
      ++at;
    }
    return token;
  }

  Token decimal(size_t begin) {
    if (peek() == '.') {
      ++at;
    }
    while (std::isdigit(static_cast<unsigned char>(peek()))) {
      ++at;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at;
      if (peek() == '+' || peek() == '-') {
        ++at;
      }
      while (std::isdigit(static_cast<unsigned char>(peek()))) {
        ++at;
      }
    }
    const std::string body(text.substr(begin, at - begin));
    char *end = nullptr;
    const double value = std::strtod(body.c_str(), &end);
    if (*end) {
      fail(FaultKind::Syntax, "{}:{}: expects a number, but got {}", name, line, body);
    }
    return make(TokenKind::Float64, begin, std::bit_cast<uint64_t>(value));
  }

  Token next() {
    const size_t begin = at;
    const char c = peek();
    if (at >= text.size()) {
      return make(TokenKind::End, begin);
    }
    if (isWordStart(c)) {
      takeWord(true);
      return make(TokenKind::Name, begin);
    }
    if (c == '.' && isWordStart(peek(1))) {
      ++at;
      takeWord(false);
      return make(TokenKind::Directive, begin);
    }
    if (std::isdigit(static_cast<unsigned char>(c))) {
      return number();
    }
    if (c == '"') {
      do {
        ++at;
        if (at >= text.size() || peek() == '\n') {
          fail(FaultKind::Syntax, "{}:{}: expects the end of the string", name, line);
        }
      } while (peek() != '"');
      ++at;
      return make(TokenKind::String, begin);
    }
    if (std::string_view("{}[]()<>,;:@!|+-*/=~&^").find(c) != std::string_view::npos) {
      ++at;
      return make(TokenKind::Punctuation, begin);
    }
    fail(FaultKind::Syntax, "{}:{}: expects PTX, but got the character {:?}", name, line, c);
  }

  std::string_view name;
  std::string_view text;
  size_t at = 0;
  uint32_t line = 1;
};

} // namespace

std::vector<Token> kvc::sim::ptx::tokenize(std::string_view name, std::string_view text) {
  return Lexer(name, text).run();
}

//===- ParserVariables.cpp - Variables of a module ------------------------===//
#include "ptx/ParserVariables.h"

#include <bit>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

std::optional<Space> VariableParser::acceptSpace() {
  static constexpr std::pair<std::string_view, Space> spaces[] = {{".global", Space::Global},
                                                                  {".shared", Space::Shared},
                                                                  {".local", Space::Local},
                                                                  {".const", Space::Const},
                                                                  {".param", Space::Param}};
  for (auto [text, space] : spaces) {
    if (acceptDirective(text)) {
      return space;
    }
  }
  return std::nullopt;
}

Type VariableParser::takeType() {
  if (token().kind != TokenKind::Directive) {
    expected("a type");
  }
  const auto type = typeByName(token().text.substr(1));
  if (!type) {
    expected("a type");
  }
  take();
  return *type;
}

VariableParser::Declaration VariableParser::parseDeclaration() {
  Declaration declaration;
  while (token().kind == TokenKind::Directive && !typeByName(token().text.substr(1))) {
    if (acceptDirective(".align")) {
      const uint64_t align = takeInteger("an alignment");
      if (align == 0 || (align & (align - 1)) != 0 || align > (1 << 20)) {
        fail(FaultKind::Syntax, "{}:{}: expects an alignment that is a power of two up to 2^20, but got {}",
             module.name, token().line, align);
      }
      declaration.align = align;
    } else if (acceptDirective(".v2")) {
      declaration.vector = 2;
    } else if (acceptDirective(".v4")) {
      declaration.vector = 4;
    } else if (acceptDirective(".attribute")) {
      expect("(");
      while (!accept(")")) {
        if (token().kind == TokenKind::End) {
          expected("')'");
        }
        take();
      }
    } else {
      expected("a type");
    }
  }
  declaration.type = takeType();
  // What a kernel parameter points to is said for optimisers; pointers are checked when they are used.
  if (acceptDirective(".ptr")) {
    acceptSpace();
    if (acceptDirective(".align")) {
      takeInteger("an alignment");
    }
  }
  if (declaration.type == Type::Pred) {
    fail(FaultKind::Syntax, "{}:{}: expects a variable of a type with bytes, but got .pred", module.name, token().line);
  }
  return declaration;
}

std::unique_ptr<Variable> VariableParser::parseDeclarator(Space space, bool isExtern, const Declaration &declaration) {
  auto variable = std::make_unique<Variable>();
  variable->space = space;
  variable->isExtern = isExtern;
  variable->line = token().line;
  variable->type = declaration.type;
  const uint64_t element = bytesOf(variable->type) * declaration.vector;
  variable->name = takeName("the name of a variable");
  variable->align = declaration.align != 0 ? declaration.align : element;
  uint64_t count = 1;
  bool open = false;
  while (accept("[")) {
    variable->isArray = true;
    if (accept("]")) {
      open = true;
      continue;
    }
    const uint64_t extent = takeInteger("the extent of an array");
    if (__builtin_mul_overflow(count, extent, &count) || count > (uint64_t(1) << 40)) {
      fail(FaultKind::Syntax, "{}:{}: expects an array below 2^40 elements, but got more", module.name, token().line);
    }
    expect("]");
  }
  variable->bytes = open ? 0 : count * element;
  if (accept("=")) {
    parseInitial(*variable);
    if (open) {
      variable->bytes = variable->initial.size();
    }
    if (variable->initial.size() > variable->bytes) {
      fail(FaultKind::Syntax, "{}:{}: expects at most {} bytes of initial values, but got {}", module.name,
           token().line, variable->bytes, variable->initial.size());
    }
  } else if (open && !isExtern && space != Space::Shared) {
    fail(FaultKind::Syntax, "{}:{}: expects the extent of {}, but got none", module.name, token().line, variable->name);
  }
  return variable;
}

void VariableParser::parseInitial(Variable &variable, unsigned depth) {
  if (accept("{")) {
    // Arrays have at most as many dimensions.
    if (depth == 0) {
      expected("fewer braces");
    }
    while (!accept("}")) {
      parseInitial(variable, depth - 1);
      if (!token().is("}")) {
        expect(",");
      }
    }
    return;
  }
  const size_t size = bytesOf(variable.type);
  uint64_t bits = 0;
  if (token().kind == TokenKind::Name) {
    // sym, sym+4, generic(sym)
    bool generic = false;
    if (token().text == "generic" && ahead().is("(")) {
      take();
      take();
      generic = true;
    }
    Relocation relocation{variable.initial.size(), std::string(takeName("a symbol")), 0, generic};
    if (generic) {
      expect(")");
    }
    if (accept("+")) {
      relocation.addend = int64_t(takeInteger("an offset"));
    }
    if (size != 8) {
      fail(FaultKind::Unsupported, "{}:{}: expects an address in a 64-bit element, but got one of {} bytes",
           module.name, token().line, size);
    }
    variable.relocations.push_back(relocation);
  } else {
    const bool minus = accept("-");
    bits = scalarBits(variable.type, take(), minus);
  }
  const auto *from = reinterpret_cast<const uint8_t *>(&bits);
  variable.initial.insert(variable.initial.end(), from, from + size);
}

uint64_t VariableParser::scalarBits(Type type, const Token &literal, bool minus) const {
  switch (literal.kind) {
  case TokenKind::Integer:
    return minus ? -literal.value : literal.value;
  case TokenKind::Float32:
    return literal.value;
  case TokenKind::Float64: {
    double value = std::bit_cast<double>(literal.value);
    value = minus ? -value : value;
    return type == Type::F64 ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(float(value));
  }
  default:
    fail(FaultKind::Syntax, "{}:{}: expects a number, but got {}", module.name, literal.line, literal.text);
  }
}

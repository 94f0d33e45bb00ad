//===- Parser.cpp - Parser of PTX -----------------------------------------===//
#include "ptx/ParserVariables.h"

#include <cstring>
#include <map>
#include <unordered_map>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

std::string_view kvc::sim::ptx::nameOf(Space space) {
  static constexpr std::string_view names[] = {"generic", "global", "shared", "shared::cluster",
                                               "local",   "const",  "param"};
  return names[static_cast<size_t>(space)];
}

const Function *Module::find(std::string_view wanted) const {
  const Function *found = nullptr;
  for (const auto &function : functions) {
    // A declaration may come before the definition.
    if (function->name == wanted && (!found || function->hasBody)) {
      found = function.get();
    }
  }
  return found;
}

const Variable *Module::findVariable(std::string_view wanted) const {
  for (const auto &variable : variables) {
    if (variable->name == wanted) {
      return variable.get();
    }
  }
  return nullptr;
}

namespace {

/// What a name means in one pair of braces.
struct Scope {
  struct Range {
    int32_t first;
    /// 0: the name itself is the register; else name0 .. name(count-1) are.
    uint32_t count;
  };
  std::unordered_map<std::string_view, Range> registers;
  std::unordered_map<std::string_view, const Variable *> variables;
  std::unordered_map<std::string_view, int32_t> labels;
};

class Parser : VariableParser {
public:
  explicit Parser(Module &module) : VariableParser(module) {}

  void run() {
    scopes.emplace_back();
    parseHeader();
    while (token().kind != TokenKind::End) {
      parseTop();
    }
  }

private:
  // Module level.
  void parseHeader() {
    if (!acceptDirective(".version")) {
      expected(".version");
    }
    const uint32_t line = token().line;
    const std::string_view version = take().text;
    if (std::sscanf(std::string(version).c_str(), "%u.%u", &module.versionMajor, &module.versionMinor) != 2) {
      fail(FaultKind::Syntax, "{}:{}: expects a version such as 8.0, but got {}", module.name, line, version);
    }
    if (module.versionMajor < 6 || module.versionMajor > 9 || (module.versionMajor == 9 && module.versionMinor > 1)) {
      fail(module.versionMajor < 6 ? FaultKind::Unsupported : FaultKind::LaterVersion,
           "{}:{}: expects PTX 6.0 to 9.1, but got {}", module.name, line, version);
    }
    if (!acceptDirective(".target")) {
      expected(".target");
    }
    module.target = takeName("a target");
    while (accept(",")) {
      const std::string_view option = takeName("an option of the target");
      if (option != "debug" && option != "texmode_independent") {
        fail(FaultKind::Unsupported, "{}:{}: expects no option of the target but debug, but got {}", module.name,
             token().line, option);
      }
    }
    if (acceptDirective(".address_size") && takeInteger("an address size") != 64) {
      fail(FaultKind::Unsupported, "{}:{}: expects 64-bit addresses, but got others", module.name, token().line);
    }
  }

  void parseTop() {
    if (token().kind != TokenKind::Directive) {
      expected("a directive");
    }
    if (parseTolerated()) {
      return;
    }
    bool isExtern = false;
    while (true) {
      if (acceptDirective(".extern")) {
        isExtern = true;
      } else if (!acceptDirective(".visible") && !acceptDirective(".weak") && !acceptDirective(".common")) {
        break;
      }
    }
    const std::string_view directive = token().text;
    if (directive == ".entry" || directive == ".func") {
      parseFunction(directive == ".entry");
      return;
    }
    if (auto space = acceptSpace()) {
      if (*space == Space::Param || *space == Space::Local) {
        expected(".global, .const or .shared");
      }
      parseVariables(*space, isExtern, [&](std::unique_ptr<Variable> variable) {
        scopes.front().variables[names(variable->name)] = variable.get();
        module.variables.push_back(std::move(variable));
      });
      return;
    }
    expected("a directive that is known at module level");
  }

  /// Directives that change nothing for execution. True when there was one.
  bool parseTolerated() {
    const std::string_view directive = token().text;
    if (directive == ".file") {
      take();
      const uint64_t number = takeInteger("the number of a file");
      if (token().kind != TokenKind::String) {
        expected("the name of a file");
      }
      const std::string_view quoted = take().text;
      // Numbers are small, but the text is not ours.
      if (number > 1 << 16) {
        expected("a file number below 65536");
      }
      module.files.resize(std::max<size_t>(module.files.size(), number + 1));
      module.files[number] = quoted.substr(1, quoted.size() - 2);
      while (accept(",")) {
        takeInteger("time stamp or size of the file");
      }
      return true;
    }
    if (directive == ".section") {
      take();
      take();
      expect("{");
      for (int depth = 1; depth > 0;) {
        if (token().kind == TokenKind::End) {
          expected("'}' of the section");
        }
        depth += token().is("{") - token().is("}");
        take();
      }
      return true;
    }
    if (directive == ".pragma") {
      take();
      while (!accept(";")) {
        if (token().kind != TokenKind::String && !token().is(",")) {
          expected("the text of the pragma");
        }
        take();
      }
      return true;
    }
    return false;
  }

  /// A view of a name that outlives the parser: the text of the module or the variable that owns it.
  static std::string_view names(const std::string &name) { return name; }

  // Functions.
  void parseFunction(bool isEntry) {
    take();
    auto owned = std::make_unique<Function>();
    function = owned.get();
    labelLines.clear();
    function->isEntry = isEntry;
    function->line = token().line;
    scopes.emplace_back();
    if (token().is("(")) {
      function->results = parseParams();
    }
    function->name = takeName("the name of a function");
    if (token().is("(")) {
      function->params = parseParams();
    }
    parseFunctionDirectives();
    if (!accept(";")) {
      function->hasBody = true;
      expect("{");
      location = {};
      parseBody();
      closeScope();
      for (size_t i = 0; i < function->labels.size(); ++i) {
        if (function->labels[i] < 0) {
          fail(FaultKind::Syntax, "{}:{}: expects the label {} in {}, but there is none", module.name, labelLines[i],
               function->labelNames[i], function->name);
        }
      }
    } else {
      scopes.pop_back();
    }
    const Function *before = module.find(function->name);
    if (before && before->hasBody && function->hasBody) {
      fail(FaultKind::Syntax, "{}:{}: expects one definition of {}, but got another at line {}", module.name,
           function->line, function->name, before->line);
    }
    module.functions.push_back(std::move(owned));
    function = nullptr;
  }

  std::vector<const Variable *> parseParams() {
    std::vector<const Variable *> params;
    expect("(");
    while (!accept(")")) {
      if (!acceptDirective(".param")) {
        expected(".param (parameters in registers are not supported)");
      }
      auto variable = parseVariable(Space::Param, false);
      scopes.back().variables[names(variable->name)] = variable.get();
      params.push_back(variable.get());
      function->variables.push_back(std::move(variable));
      if (!token().is(")")) {
        expect(",");
      }
    }
    return params;
  }

  void parseFunctionDirectives() {
    while (token().kind == TokenKind::Directive) {
      const std::string_view directive = token().text;
      if (parseTolerated()) {
        continue;
      }
      take();
      auto three = [&](std::array<uint32_t, 3> &to) {
        to = {1, 1, 1};
        size_t i = 0;
        do {
          const uint64_t value = takeInteger("a size");
          if (i > 2 || value == 0 || value > 1 << 20) {
            expected("up to three sizes");
          }
          to[i++] = uint32_t(value);
        } while (accept(","));
      };
      if (directive == ".maxntid") {
        three(function->maxThreads);
      } else if (directive == ".reqntid") {
        three(function->requiredThreads);
      } else if (directive == ".reqnctapercluster") {
        three(function->clusterSize);
      } else if (directive == ".minnctapersm") {
        function->minBlocksPerSm = uint32_t(takeInteger("a count"));
      } else if (directive == ".maxnreg") {
        function->maxRegisters = uint32_t(takeInteger("a count"));
      } else if (directive == ".maxnctapersm" || directive == ".maxclusterrank") {
        takeInteger("a count");
      } else if (directive != ".noreturn" && directive != ".explicitcluster" && directive != ".blocksareclusters") {
        --at;
        expected("a directive of a function");
      }
    }
  }

  void closeScope() {
    // Labels that this scope does not have may belong to the one around it.
    if (scopes.size() > 2) {
      Scope &outer = scopes[scopes.size() - 2];
      for (auto [name, label] : scopes.back().labels) {
        if (function->labels[label] < 0) {
          auto [found, isNew] = outer.labels.emplace(name, label);
          if (!isNew) {
            forwarded[label] = found->second;
          }
        }
      }
    }
    scopes.pop_back();
    if (scopes.size() == 1) {
      for (auto [from, to] : forwarded) {
        while (forwarded.count(to)) {
          to = forwarded.at(to);
        }
        function->labels[from] = function->labels[to];
      }
      forwarded.clear();
    }
  }

  /// From after `{` to `}`, which it takes.
  void parseBody() {
    while (!accept("}")) {
      if (token().kind == TokenKind::End) {
        expected("'}'");
      }
      if (accept("{")) {
        scopes.emplace_back();
        parseBody();
        closeScope();
        continue;
      }
      if (token().kind == TokenKind::Directive) {
        parseBodyDirective();
        continue;
      }
      if (token().kind == TokenKind::Name && ahead().is(":")) {
        defineLabel(take().text);
        take();
        continue;
      }
      if (accept(";")) {
        continue;
      }
      parseInstruction();
    }
  }

  int32_t labelOf(std::string_view name) {
    auto found = scopes.back().labels.find(name);
    if (found != scopes.back().labels.end()) {
      return found->second;
    }
    // A label of an outer scope that is already known.
    for (size_t i = scopes.size(); i-- > 1;) {
      auto outer = scopes[i].labels.find(name);
      if (outer != scopes[i].labels.end() && function->labels[outer->second] >= 0) {
        return outer->second;
      }
    }
    const auto label = int32_t(function->labels.size());
    function->labels.push_back(-1);
    function->labelNames.emplace_back(name);
    labelLines.push_back(token().line);
    scopes.back().labels.emplace(name, label);
    return label;
  }

  void defineLabel(std::string_view name) {
    auto found = scopes.back().labels.find(name);
    int32_t label;
    if (found != scopes.back().labels.end()) {
      label = found->second;
      if (function->labels[label] >= 0) {
        fail(FaultKind::Syntax, "{}:{}: expects one label {}, but got another", module.name, token().line, name);
      }
    } else {
      label = int32_t(function->labels.size());
      function->labels.push_back(-1);
      function->labelNames.emplace_back(name);
      labelLines.push_back(token().line);
      scopes.back().labels.emplace(name, label);
    }
    function->labels[label] = int32_t(function->body.size());
    lastLabel = label;
  }

  void parseBodyDirective() {
    const std::string_view directive = token().text;
    if (parseTolerated()) {
      return;
    }
    if (directive == ".loc") {
      parseLoc();
      return;
    }
    if (acceptDirective(".reg")) {
      parseRegisters();
      return;
    }
    if (acceptDirective(".branchtargets")) {
      std::vector<int32_t> targets;
      do {
        targets.push_back(labelOf(takeName("a label")));
      } while (accept(","));
      expect(";");
      function->branchTargets.emplace_back(lastLabel, std::move(targets));
      return;
    }
    if (auto space = acceptSpace()) {
      parseVariables(*space, false, [&](std::unique_ptr<Variable> variable) {
        scopes.back().variables[names(variable->name)] = variable.get();
        // Statics of a function live as long as the module.
        auto &owner = *space == Space::Global || *space == Space::Const ? module.variables : function->variables;
        owner.push_back(std::move(variable));
      });
      return;
    }
    expected("a directive that is known in a function");
  }

  void parseLoc() {
    take();
    location.file = uint32_t(takeInteger("a file number"));
    location.line = uint32_t(takeInteger("a line"));
    location.column = uint32_t(takeInteger("a column"));
    // `, function_name $label+4, inlined_at file line column`
    while (accept(",")) {
      const std::string_view word = takeName("function_name or inlined_at");
      if (word == "function_name") {
        takeName("a label of the debug strings");
        if (accept("+")) {
          takeInteger("an offset");
        }
      } else if (word == "inlined_at") {
        for (int i = 0; i < 3; ++i) {
          takeInteger("file, line and column");
        }
      } else {
        expected("function_name or inlined_at");
      }
    }
  }

  void parseRegisters() {
    while (token().kind == TokenKind::Directive && !typeByName(token().text.substr(1))) {
      if (token().text == ".v2" || token().text == ".v4") {
        fail(FaultKind::Unsupported, "{}:{}: expects scalar registers, but got a vector register", module.name,
             token().line);
      }
      expected("the type of a register");
    }
    const Type type = takeType();
    do {
      const std::string_view name = takeName("the name of a register");
      uint64_t count = 0;
      if (accept("<")) {
        count = takeInteger("how many registers");
        if (count > 1 << 22) {
          expected("at most 2^22 registers");
        }
        expect(">");
      }
      scopes.back().registers[name] = {int32_t(function->registers.size()), uint32_t(count)};
      if (count == 0) {
        function->registers.push_back({std::string(name), type});
      }
      for (uint64_t i = 0; i < count; ++i) {
        function->registers.push_back({fmt::format("{}{}", name, i), type});
      }
    } while (accept(","));
    expect(";");
  }

  int32_t registerOf(std::string_view name) const {
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) {
      --digits;
    }
    for (size_t i = scopes.size(); i-- > 0;) {
      const auto &known = scopes[i].registers;
      if (auto found = known.find(name); found != known.end() && found->second.count == 0) {
        return found->second.first;
      }
      // Any split into name and number: `%r1<20>` declares %r10 .. %r119.
      for (size_t split = digits; split < name.size(); ++split) {
        if (name[split] == '0' && split + 1 < name.size()) {
          continue;
        }
        if (auto found = known.find(name.substr(0, split)); found != known.end()) {
          const uint64_t number = std::strtoull(std::string(name.substr(split)).c_str(), nullptr, 10);
          if (number < found->second.count) {
            return found->second.first + int32_t(number);
          }
        }
      }
    }
    return -1;
  }

  const Variable *variableOf(std::string_view name) const {
    for (size_t i = scopes.size(); i-- > 0;) {
      if (auto found = scopes[i].variables.find(name); found != scopes[i].variables.end()) {
        return found->second;
      }
    }
    return nullptr;
  }

  void parseInstruction() {
    Instruction instruction;
    instruction.line = token().line;
    instruction.location = location;
    if (accept("@")) {
      instruction.guardNegated = accept("!");
      const std::string_view name = takeName("a predicate");
      instruction.guard = registerOf(name);
      if (instruction.guard < 0 || function->registers[instruction.guard].type != Type::Pred) {
        fail(FaultKind::Syntax, "{}:{}: expects a predicate register after '@', but got {}", module.name,
             instruction.line, name);
      }
    }
    const char *begin = token().text.data();
    std::string_view word = takeName("an instruction");
    const size_t dot = word.find('.');
    instruction.opcode = word.substr(0, dot);
    while (word.find('.') != std::string_view::npos) {
      word = word.substr(word.find('.') + 1);
      instruction.modifiers.push_back(word.substr(0, word.find('.')));
    }
    if (!token().is(";")) {
      do {
        instruction.operands.push_back(parseOperand());
      } while (accept(","));
    }
    instruction.text = std::string_view(begin, token().text.data() - begin);
    expect(";");
    function->body.push_back(std::move(instruction));
  }

  Operand parseOperand() {
    Operand operand = parseSimple();
    if (accept("|")) {
      operand.second.push_back(parseSimple());
    }
    return operand;
  }

  Operand parseSimple() {
    Operand operand;
    const Token &first = token();
    operand.text = first.text;
    if (accept("!")) {
      operand = parseSimple();
      operand.negated = true;
      return operand;
    }
    if (accept("{")) {
      operand.kind = Operand::Kind::Vector;
      while (!accept("}")) {
        operand.elements.push_back(parseOperand());
        if (!token().is("}")) {
          expect(",");
        }
      }
      return operand;
    }
    if (accept("(")) {
      operand.kind = Operand::Kind::List;
      while (!accept(")")) {
        operand.elements.push_back(parseOperand());
        if (!token().is(")")) {
          expect(",");
        }
      }
      return operand;
    }
    if (accept("[")) {
      operand.kind = Operand::Kind::Address;
      operand.elements.push_back(parseSimple());
      operand.offset = operand.elements[0].offset;
      operand.elements[0].offset = 0;
      while (accept(",")) {
        operand.elements.push_back(parseOperand());
      }
      expect("]");
      return operand;
    }
    const bool minus = accept("-");
    const bool invert = !minus && accept("~");
    const Token &literal = token();
    switch (literal.kind) {
    case TokenKind::Integer:
      operand.kind = Operand::Kind::Integer;
      operand.value = minus ? -literal.value : invert ? ~literal.value : literal.value;
      take();
      operand.offset = parseOffset();
      operand.value += uint64_t(operand.offset);
      operand.offset = 0;
      return operand;
    case TokenKind::Float32:
      operand.kind = Operand::Kind::Float32;
      operand.value = literal.value ^ (minus ? 0x80000000u : 0);
      take();
      return operand;
    case TokenKind::Float64:
      operand.kind = Operand::Kind::Float64;
      operand.value = literal.value ^ (minus ? uint64_t(1) << 63 : 0);
      take();
      return operand;
    case TokenKind::Name:
      if (!minus && !invert) {
        return parseNamed();
      }
      [[fallthrough]];
    default:
      expected("an operand");
    }
  }

  /// `+4`, `-4`, `+-4`: 0 when there is none.
  int64_t parseOffset() {
    int64_t offset = 0;
    while (token().is("+") || token().is("-")) {
      bool minus = take().is("-");
      if (accept("-")) {
        minus = !minus;
      }
      const auto value = int64_t(takeInteger("an offset"));
      offset += minus ? -value : value;
    }
    return offset;
  }

  Operand parseNamed() {
    Operand operand;
    operand.text = take().text;
    const std::string_view name = operand.text;
    if (name == "_") {
      return operand;
    }
    if (int32_t reg = registerOf(name); reg >= 0) {
      operand.kind = Operand::Kind::Register;
      operand.reg = reg;
    } else if (const Variable *variable = variableOf(name)) {
      operand.kind = Operand::Kind::Variable;
      operand.variable = variable;
    } else if (name[0] == '%' || name == "WARP_SZ") {
      operand.kind = Operand::Kind::Special;
    } else if (module.find(name) || (function && function->name == name)) {
      operand.kind = Operand::Kind::Function;
    } else {
      operand.kind = Operand::Kind::Label;
      operand.label = labelOf(name);
    }
    operand.offset = parseOffset();
    return operand;
  }

  Function *function = nullptr;
  std::vector<Scope> scopes;
  std::map<int32_t, int32_t> forwarded;
  Location location;
  int32_t lastLabel = -1;
  /// Where each label of the function was met first.
  std::vector<uint32_t> labelLines;
};

} // namespace

std::unique_ptr<Module> kvc::sim::ptx::parseModule(std::string name, std::string text) {
  auto module = std::make_unique<Module>();
  module->name = std::move(name);
  module->text = std::make_unique<std::string>(std::move(text));
  Parser(*module).run();
  return module;
}

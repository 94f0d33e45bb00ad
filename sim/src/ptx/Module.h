//===- Module.h - A parsed PTX module ---------------------------*- C++ -*-===//
//
// What the parser makes: names are resolved, opcodes and modifiers are still text (the decoder's tables know them).
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_MODULE_H
#define KVCSIM_PTX_MODULE_H

#include "ptx/Type.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::sim::ptx {

enum class Space : uint8_t { Generic, Global, Shared, SharedCluster, Local, Const, Param };
std::string_view nameOf(Space space);

/// An address in the initial value of a variable: 8 bytes at `offset` hold the address of `symbol` plus `addend`.
struct Relocation {
  uint64_t offset;
  std::string symbol;
  int64_t addend;
  bool generic;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::None;
  uint64_t bytes = 0;
  uint64_t align = 1;
  /// Declared elsewhere; for shared memory: as large as the launch says.
  bool isExtern = false;
  bool isArray = false;
  std::vector<uint8_t> initial;
  std::vector<Relocation> relocations;
  uint32_t line = 0;
};

struct Operand {
  enum class Kind : uint8_t {
    Register, ///< `reg`
    Integer,
    Float32, ///< the bits are in `value`
    Float64,
    Variable, ///< the address of `variable`, plus `offset`
    Special,  ///< a read-only register: `%tid.x`
    Address,  ///< `[base + offset]`; elements: the base, then a vector of coordinates where there is one, then more
    Vector,   ///< `{a, b}`
    List,     ///< `(a, b)` of a call
    Label,
    Function,
    Sink, ///< `_`
  };
  Kind kind = Kind::Sink;
  /// `!p`
  bool negated = false;
  int32_t reg = -1;
  uint64_t value = 0;
  int64_t offset = 0;
  int32_t label = -1;
  const Variable *variable = nullptr;
  std::string_view text;
  std::vector<Operand> elements;
  /// `d|p`: the second destination.
  std::vector<Operand> second;
};

struct Location {
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t column = 0;
  bool operator==(const Location &) const = default;
};

struct Instruction {
  int32_t guard = -1;
  bool guardNegated = false;
  std::string_view opcode;
  std::vector<std::string_view> modifiers;
  std::vector<Operand> operands;
  uint32_t line = 0;
  Location location;
  /// As it is written, without the guard.
  std::string_view text;
};

struct Register {
  std::string name;
  Type type;
};

struct Function {
  std::string name;
  bool isEntry = false;
  bool hasBody = false;
  std::vector<const Variable *> params;
  std::vector<const Variable *> results;
  std::vector<Register> registers;
  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<Instruction> body;
  /// The index of the instruction that a label stands before.
  std::vector<int32_t> labels;
  std::vector<std::string> labelNames;
  /// `.branchtargets` and `.calltargets` lists, by the label that names them.
  std::vector<std::pair<int32_t, std::vector<int32_t>>> branchTargets;
  /// Of .maxntid, .reqntid, .reqnctapercluster; 0: not given.
  std::array<uint32_t, 3> maxThreads{};
  std::array<uint32_t, 3> requiredThreads{};
  std::array<uint32_t, 3> clusterSize{};
  uint32_t minBlocksPerSm = 0;
  uint32_t maxRegisters = 0;
  uint32_t line = 0;
};

struct Module {
  std::string name;
  /// Owns what the views point into.
  std::unique_ptr<std::string> text;
  unsigned versionMajor = 0;
  unsigned versionMinor = 0;
  std::string target;
  std::vector<std::string> files;
  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<std::unique_ptr<Function>> functions;

  const Function *find(std::string_view name) const;
  const Variable *findVariable(std::string_view name) const;
};

/// Parses a module. `name` (of the file) is part of error messages. Throws Fault.
std::unique_ptr<Module> parseModule(std::string name, std::string text);

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_MODULE_H

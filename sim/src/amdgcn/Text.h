//===- Text.h - Disassembly -------------------------------------*- C++ -*-===//
//
// LLVM's disassembler decodes the bytes and its printer writes the assembler's text, which says everything that an
// instruction does by name; the tables of operand positions are private to LLVM.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_TEXT_H
#define KVCSIM_AMDGCN_TEXT_H

#include "amdgcn/CodeObject.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::sim::amdgcn {

/// Numbers of scalar registers, of our own: as in an encoding of gfx11 where that has them.
namespace sreg {
enum : uint16_t {
  Vcc = 106,
  Ttmp = 108,
  M0 = 124,
  Null = 125,
  Exec = 126,
  FlatScratch = 128,
  XnackMask = 130,
  Scc = 132,
  Vccz = 133,
  Execz = 134,
  Count = 136
};
} // namespace sreg

/// Upper halves of flat addresses of LDS and private memory, of our own choice.
inline constexpr uint64_t ldsAperture = uint64_t(0x00010000) << 32;
inline constexpr uint64_t privateAperture = uint64_t(0x00020000) << 32;

/// Accumulation registers follow the vector registers.
inline constexpr unsigned firstAgpr = 256;

struct TextOperand {
  enum class Kind : uint8_t { Vector, Scalar, Integer, Float, Off, Word };
  Kind kind = Kind::Word;
  uint16_t reg = 0;
  uint8_t dwords = 1;
  bool neg = false, abs = false, sext = false;
  /// A half of a register by name: 0 low, 1 high, -1 all of it.
  int8_t half = -1;
  int64_t integer = 0;
  double number = 0;
  std::string text;
};

struct TextInst {
  uint64_t address = 0;
  uint32_t bytes = 0;
  /// All of it, for messages.
  std::string text;
  /// Without the suffix of its encoding.
  std::string name;
  /// "e32", "e64", "dpp", "sdwa", "e64_dpp", "dpp8", "e64_dpp8", or nothing.
  std::string encoding;
  std::vector<TextOperand> operands;
  /// "offset:16", "glc", "vmcnt(0)": name and value.
  std::vector<std::pair<std::string, std::string>> modifiers;
  /// The second half of a dual instruction.
  std::vector<TextInst> second;

  const std::string *modifier(std::string_view wanted) const;
};

/// The instructions of a kernel, to the end of its code. Faults at bytes that are none.
std::vector<TextInst> disassemble(const CodeObject &object, const KernelInfo &kernel);

/// Reads one line of assembler text.
TextInst parseText(std::string_view text);

/// A list such as "[0,1]", or a number.
std::vector<int64_t> numbersOf(const std::string &text);
std::optional<int64_t> integerOf(std::string_view text);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_TEXT_H

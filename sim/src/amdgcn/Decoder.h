//===- Decoder.h - From text to instructions --------------------*- C++ -*-===//
//
// An instruction is known when its name has a row in a table, its operands fit the row and every modifier was used.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_DECODER_H
#define KVCSIM_AMDGCN_DECODER_H

#include "amdgcn/Exec.h"

#include <map>
#include <set>

namespace kvc::sim::amdgcn {

class Decoder {
public:
  Decoder(Program &program, const TextInst &text, Inst &inst,
          std::map<std::pair<uint64_t, unsigned>, uint32_t> &constants)
      : program(program), text(text), inst(inst), constants(constants) {}

  /// Decodes; faults for what is not known.
  void run();

  // What the tables use.
  const TextOperand &operand(size_t i) const;
  size_t operandCount() const { return text.operands.size(); }
  bool has(std::string_view modifier);
  /// The number of a modifier, or `otherwise`.
  int64_t number(std::string_view modifier, int64_t otherwise = 0);
  std::vector<int64_t> list(std::string_view modifier);
  [[noreturn]] void unsupported(std::string_view what) const;

  Source makeSource(const TextOperand &from, Type type);
  void addSource(const TextOperand &from, Type type);
  void setVectorDestination(const TextOperand &from, unsigned dwords);
  void setScalarDestination(const TextOperand &from, unsigned dwords);
  uint16_t maskRegister(const TextOperand &from) const;
  void reads(const Source &source);
  void reads(RegisterRange range) { inst.reads.push_back(range); }
  void writes(RegisterRange range) { inst.writes.push_back(range); }
  RegisterRange maskRange(uint16_t reg) const { return {reg, uint8_t(program.waveSize / 32), false}; }
  /// Faults when a modifier was not used.
  void checkModifiers() const;

  Program &program;
  const TextInst &text;
  Inst &inst;

private:
  bool decodeVector();
  bool decodeCrossLane();
  void packedModifiers(const LaneRow &row);
  void permutation();
  void sdwa();
  bool scaledCodes();
  void results(const LaneRow &row, bool highDestination);

  std::map<std::pair<uint64_t, unsigned>, uint32_t> &constants;
  std::set<std::string, std::less<>> used;
};

/// True when the instruction is one of this kind; faults when it is, but has something unknown.
bool decodeScalar(Decoder &decoder);
bool decodeControl(Decoder &decoder);
bool decodeMemory(Decoder &decoder);
bool decodeLds(Decoder &decoder);
bool decodeMatrix(Decoder &decoder);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_DECODER_H

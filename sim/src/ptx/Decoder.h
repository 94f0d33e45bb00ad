//===- Decoder.h - Tables of instructions -----------------------*- C++ -*-===//
//
// An instruction is known when a row of a table matches its opcode and all of its modifiers. A row's pattern has the
// modifiers in their order; `<group>` is one of a group of modifiers (see the table of groups in Decoder.cpp), brackets
// mean that it may be missing: "add [<rnd>] [ftz] [sat] f32". What matched is handed to the row's build function, which
// takes the operands in order and sets how the instruction is executed.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_DECODER_H
#define KVCSIM_PTX_DECODER_H

#include "ptx/Program.h"

#include <initializer_list>
#include <span>

namespace kvc::sim::ptx {

class Build;

struct Row {
  std::string_view pattern;
  Class kind;
  /// Takes operands and sets exec. `row` gives what the family shares with its siblings.
  void (*build)(Build &build, const Row &row);
  /// For the build function: which operation of a family.
  int op = 0;
  /// The first chip and PTX version that have it.
  unsigned sm = 0;
  unsigned ptx = 0;
};

/// The tables, each in the file of its family.
std::span<const Row> integerRows();
std::span<const Row> floatRows();
std::span<const Row> halfRows();
std::span<const Row> moveRows();
std::span<const Row> convertRows();
std::span<const Row> controlRows();
std::span<const Row> memoryRows();
std::span<const Row> atomicRows();
std::span<const Row> warpRows();
std::span<const Row> mmaRows();
std::span<const Row> asyncRows();
std::span<const Row> mbarrierRows();
std::span<const Row> bulkRows();
std::span<const Row> wgmmaRows();

/// A memory operand after decoding.
struct AddressOperand {
  Place base = noPlace;
  bool narrow = false;
};

class DecoderImpl;

/// One instruction while it is decoded.
class Build {
public:
  Build(DecoderImpl &decoder, const Instruction &source, Inst &inst) : decoder(decoder), source(source), inst(inst) {}

  DecoderImpl &decoder;
  const Instruction &source;
  Inst &inst;

  // What the row's pattern matched.
  std::vector<std::string_view> matched;
  bool has(std::string_view modifier) const;
  /// The n-th matched modifier that is a type.
  Type type(size_t n = 0) const;
  size_t typeCount() const;
  /// Which of the modifiers was matched, as its index; -1 if none.
  int which(std::initializer_list<std::string_view> modifiers) const;

  // Operands, in order. Each takes the next one and appends its place to the instruction's list.
  /// How many operands the instruction has, and how many are left.
  size_t operandCount() const { return source.operands.size(); }
  size_t left() const { return source.operands.size() - next; }
  const Operand &peek() const;
  /// A destination register of the type's size. With `wider` a larger register is accepted; its size is returned.
  unsigned dst(Type type, bool wider = false);
  /// A predicate destination, `_` allowed; `p|q` gives two.
  void dstPred();
  void dstPredPair();
  /// A register or an immediate. With `wider`, a larger register is accepted.
  unsigned src(Type type, bool wider = false);
  /// A predicate; its negation is the returned value.
  bool srcPred();
  /// A braced list of `n` registers (a single register without braces where n is 1).
  void dstVector(Type type, unsigned n, bool wider = false);
  void srcVector(Type type, unsigned n, bool wider = false);
  /// How many elements the next operand has.
  unsigned vectorSize() const;
  /// `[base+offset]`: the base's place is appended, inst.imm is the offset. True: the register has 32 bits.
  bool address(Space space);
  /// Places an operand out of order.
  void placeOf(const Operand &operand, Type type, bool wider = false);
  /// The bits of an immediate of a type; faults for registers.
  uint64_t immediate(Type type);
  /// A constant with the same value in all lanes.
  Place constant(uint64_t value, unsigned bytes);
  void append(Place place);
  const Operand &takeOperand() { return take(); }
  void finish();

  /// Instructions that follow this one.
  std::vector<Inst> after;

  [[noreturn]] void refuse(std::string_view what) const;
  std::string where() const;

private:
  const Operand &take();
  unsigned registerBytes(const Operand &operand, Type type, bool wider) const;
  uint64_t bitsOfImmediate(const Operand &operand, Type type) const;
  friend class DecoderImpl;

  size_t next = 0;
  std::vector<Place> places;
};

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_DECODER_H

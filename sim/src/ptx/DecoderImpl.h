//===- DecoderImpl.h - State of the decoder ---------------------*- C++ -*-===//
#ifndef KVCSIM_PTX_DECODERIMPL_H
#define KVCSIM_PTX_DECODERIMPL_H

#include "ptx/Decoder.h"

#include <map>

namespace kvc::sim::ptx {

/// Sets Inst::meet of all branches of the code from `begin` to `end`, which is one function.
void findMeetingPoints(Program &program, int32_t begin, int32_t end);

/// The driver's function behind assert().
bool isFailingAssertion(const Function &function);

class DecoderImpl {
public:
  DecoderImpl(const Module &module, const VariableAddresses &addresses, Target target)
      : module(module), moduleAddresses(addresses), target(target), owned(std::make_unique<Program>()),
        program(*owned) {}

  std::unique_ptr<Program> run(const Function &kernel);

  Place registerPlace(int32_t reg) const { return registerBase[reg]; }
  Type registerType(int32_t reg) const { return registerTypes->registers[reg].type; }
  Place constant(uint64_t value, unsigned bytes);
  Place specialPlace(Special special);
  Place takeRegisters(uint32_t bytes, uint32_t align);
  static const std::pair<std::string_view, Special> *findSpecial(std::string_view name);
  uint64_t addressOf(const Variable &variable);
  /// The place of a constant with the address of a variable plus an offset.
  Place addressPlace(const Variable &variable, int64_t offset, unsigned bytes);
  /// The bytes of a parameter of a function, or of a call: one after another for each lane.
  Place callParameterPlace(const Variable &variable);
  /// Appends an instruction.
  void emit(Inst inst, const Instruction &source, const Function &function);

  const Module &module;
  const VariableAddresses &moduleAddresses;
  Target target;
  std::unique_ptr<Program> owned;
  Program &program;
  std::map<const Variable *, uint32_t> kernelParameters;
  std::map<const Function *, int32_t> entryOf;
  const Function *registerTypes = nullptr;
  /// Targets of indexed branches; labels until the function is complete.
  std::vector<std::vector<Place>> branchTables;

private:
  void layoutKernelParameters(const Function &kernel);
  void decodeFunction(const Function &function);
  void decodeInstruction(const Function &function, const Instruction &source);

  /// Stands for the start of dynamic shared memory.
  static constexpr uint64_t dynamicMarker = ~uint64_t(0);
  struct DynamicConstant {
    Place place;
    unsigned bytes;
    int64_t offset;
  };

  std::map<std::pair<uint64_t, unsigned>, Place> constants;
  std::map<const Variable *, uint64_t> variables;
  std::map<const Variable *, Place> callParameters;
  std::vector<DynamicConstant> dynamicConstants;
  std::vector<Place> registerBase;
  std::vector<const Function *> callStack;
  const Instruction *current = nullptr;
  uint64_t dynamicAlign = 16;
};

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_DECODERIMPL_H

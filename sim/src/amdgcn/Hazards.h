//===- Hazards.h - Distances that the hardware does not enforce -*- C++ -*-===//
//
// On CDNA, results of matrix instructions, and some of vector instructions, may only be used after a number of wait
// states (instructions, and what s_nop adds), as the ISA documents list them; nothing holds back an instruction that
// comes too early. On RDNA3 that is so for a matrix product of the one before (its ISA document), and for results of
// transcendentals (the fault that LLVM knows as FeatureVALUTransUseHazard).
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_HAZARDS_H
#define KVCSIM_AMDGCN_HAZARDS_H

#include "amdgcn/Program.h"

#include <vector>

namespace kvc::sim::amdgcn {

class Hazards {
public:
  void reset() {
    states = vectors = 0;
    results.clear();
    recent = {};
    specials = {};
    lastVector = nullptr;
  }
  /// Checks an instruction, and counts its wait states.
  void step(const Program &program, const Inst &inst) {
    if (program.chip->cdna()) {
      stepCdna(program, inst);
    } else if (program.chip->family == Family::Rdna3) {
      stepRdna3(program, inst);
    }
  }

private:
  struct Result {
    uint64_t state;
    RegisterRange d, c;
    uint32_t inst;
    uint8_t passes;
    bool isXdl;
  };
  struct Recent {
    const Inst *inst = nullptr;
    uint64_t state = 0;
  };
  void stepCdna(const Program &program, const Inst &inst);
  void stepRdna3(const Program &program, const Inst &inst);
  void check(const Program &program, const Inst &inst, const Result &result) const;
  void checkRecent(const Program &program, const Inst &inst) const;

  uint64_t states = 0;
  /// The last instructions, in a ring.
  std::array<Recent, 8> recent{};
  unsigned next = 0;
  std::vector<Result> results;

  // RDNA3: vector instructions so far, the last one, and the last two transcendentals with their places among them.
  uint64_t vectors = 0;
  const Inst *lastVector = nullptr;
  std::array<Recent, 2> specials{};
};

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_HAZARDS_H

//===- Hazards.h - Distances that the hardware does not enforce -*- C++ -*-===//
//
// On CDNA, results of matrix instructions, and some of vector instructions, may only be used after a number of wait
// states (instructions, and what s_nop adds), as the ISA documents list them; nothing holds back an instruction that
// comes too early.
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
    states = 0;
    results.clear();
    recent = {};
  }
  /// Checks an instruction, and counts its wait states.
  void step(const Program &program, const Inst &inst);

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
  void check(const Program &program, const Inst &inst, const Result &result) const;
  void checkRecent(const Program &program, const Inst &inst) const;

  uint64_t states = 0;
  /// The last instructions, in a ring.
  std::array<Recent, 8> recent{};
  unsigned next = 0;
  std::vector<Result> results;
};

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_HAZARDS_H

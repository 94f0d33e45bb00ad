//===- Hazards.cpp - Distances that the hardware does not enforce ---------===//
#include "amdgcn/Hazards.h"

#include "amdgcn/Exec.h"
#include "amdgcn/Matrix.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

/// No distance is longer.
static constexpr uint64_t longest = 20;

static bool overlap(const RegisterRange &a, const RegisterRange &b) {
  return a.vector == b.vector && a.first < b.first + b.count && b.first < a.first + a.count;
}
/// `a` without the registers of `b` at its begin or end; one in the middle stays.
static RegisterRange without(RegisterRange a, const RegisterRange &b) {
  if (!overlap(a, b)) {
    return a;
  }
  const unsigned aEnd = a.first + a.count, bEnd = b.first + b.count;
  if (b.first <= a.first) {
    a.count = static_cast<uint8_t>(aEnd - std::min(aEnd, bEnd));
    a.first = static_cast<uint16_t>(bEnd);
  } else if (bEnd >= aEnd) {
    a.count = static_cast<uint8_t>(b.first - a.first);
  }
  return a;
}
static bool same(const RegisterRange &a, const RegisterRange &b) {
  return a.vector == b.vector && a.first == b.first && a.count == b.count;
}

/// Wait states between a matrix product and what needs its result. Passes are 2, 4, 8 or 16.
static unsigned distance(const Chip &chip, unsigned passes, bool isXdl, bool accumulates) {
  if (chip.family == Family::Cdna2) {
    // CDNA2: 4x4, 16x16 and 32x32 products take 2, 8 and 16 passes.
    return accumulates ? (passes <= 2 ? 2 : passes <= 8 ? 8 : 16) : passes <= 2 ? 5 : passes <= 8 ? 11 : 19;
  }
  const unsigned late = isXdl && passes > 2 && chip.family == Family::Cdna4 ? 1 : 0;
  return passes + late + (accumulates ? (isXdl ? 1 : 0) : (isXdl ? 3 : 2));
}

void Hazards::check(const Program &program, const Inst &inst, const Result &result) const {
  const Chip &chip = *program.chip;
  const uint64_t passed = states - result.state - 1;
  auto demand = [&](unsigned needed, const char *what) {
    if (passed < needed) {
      fail(FaultKind::Race, "expects {} wait states between {} and {} of its registers, but got {}", needed,
           describe(program, result.inst), what, passed);
    }
  };
  const bool matrix = inst.kind == Class::Matrix;
  for (size_t i = 0; i < inst.reads.size(); ++i) {
    const RegisterRange &range = inst.reads[i];
    if (!overlap(range, result.d)) {
      continue;
    }
    if (matrix && i == 2) {
      // The sum goes on in place: no distance, but for short products of CDNA3.
      if (same(range, result.d)) {
        demand(chip.family != Family::Cdna2 && result.passes <= 2 ? 2 : 0, "the sum that goes on");
      } else {
        demand(distance(chip, result.passes, result.isXdl, true), "a sum that overlaps it");
      }
      continue;
    }
    demand(distance(chip, result.passes, result.isXdl, false), "a read");
  }
  if (!matrix) {
    for (const RegisterRange &range : inst.writes) {
      if (overlap(range, result.d)) {
        demand(distance(chip, result.passes, result.isXdl, false), "a write");
      }
      if (result.c.count != 0 && overlap(range, result.c) && inst.kind != Class::Load && inst.kind != Class::LdsRead) {
        demand(result.passes <= 2 ? 1 : result.passes - 1, "a write over its sum");
      }
    }
  }
}

static bool writesExec(const Inst &inst) {
  return (inst.row && (inst.row->flags & WritesExec)) || (inst.maskOut == sreg::Exec);
}

void Hazards::checkRecent(const Program &program, const Inst &inst) const {
  const bool cdna3 = program.chip->family != Family::Cdna2, matrix = inst.kind == Class::Matrix;
  const bool swaps = inst.hazards & SwapsLanes;
  for (const Recent &before : recent) {
    if (!before.inst) {
      continue;
    }
    const Inst &writer = *before.inst;
    const uint64_t passed = states - before.state - 1;
    auto demand = [&](unsigned needed, const char *what) {
      if (passed < needed) {
        fail(FaultKind::Race, "expects {} wait states between {} and {}, but got {}", needed, describe(program, writer),
             what, passed);
      }
    };
    auto isWritten = [&](const RegisterRange &range) {
      return std::any_of(writer.writes.begin(), writer.writes.end(),
                         [&](const RegisterRange &written) { return overlap(range, written); });
    };
    if (writer.hazards & StoresWide) {
      const Source &data = writer.s[DataSource];
      for (const RegisterRange &range : inst.writes) {
        if ((matrix || (inst.hazards & IsVector)) && overlap(range, {data.reg, data.dwords, true})) {
          demand(cdna3 ? 2 : 1, "a write over what it stores");
        }
      }
      continue;
    }
    if (writer.hazards & WritesM0) {
      demand(inst.hazards & LoadsToLds ? 1 : 0, "a load to LDS at its result");
      continue;
    }
    if (writesExec(writer)) {
      if (inst.hazards & ReadsByDpp) {
        demand(5, "a permutation under the lanes that it chose");
      } else if (matrix || swaps || (cdna3 && (inst.hazards & MovesLane))) {
        demand(4, "an instruction under the lanes that it chose");
      }
    }
    if ((inst.hazards & ReadsByDpp) && inst.s[0].kind == Source::Kind::Vector &&
        isWritten({inst.s[0].reg, inst.s[0].dwords, true})) {
      demand(2, "a permutation of its result");
    }
    for (const RegisterRange &range : inst.reads) {
      if (!isWritten(range)) {
        continue;
      }
      if (range.vector) {
        if (matrix) {
          demand(2, "a matrix product of its result");
        } else if (swaps) {
          demand(2, "an exchange of its result");
        } else if (cdna3 && (inst.hazards & MovesLane) && !inst.d.vector) {
          // v_writelane_b32 keeps the other lanes: it is in order.
          demand(1, "the read of a lane of its result");
        } else if (cdna3 && (inst.hazards & IsVector)) {
          const bool forwarded = (writer.hazards & WritesPart) ||
                                 ((writer.hazards & IsTranscendental) && !(inst.hazards & IsTranscendental));
          demand(forwarded ? 1 : 0, "the use of its result");
        }
      } else if (inst.hazards & ReadsScalarAddress) {
        demand(5, "a memory access by its scalar result");
      } else if ((inst.hazards & ReadsLaneNumber) && inst.s[1].kind == Source::Kind::Scalar &&
                 overlap(range, {inst.s[1].reg, 1, false})) {
        demand(4, "the choice of a lane by its result");
      } else if ((inst.hazards & ReadsVccScale) && range.first == sreg::Vcc) {
        demand(4, "v_div_fmas, which reads VCC");
      } else if (cdna3 && (inst.hazards & IsVector)) {
        demand(2, "a vector instruction that reads its scalar result");
      }
    }
  }
}

void Hazards::stepCdna(const Program &program, const Inst &inst) {
  if (!results.empty()) {
    std::erase_if(results, [&](const Result &r) { return states - r.state > longest; });
    for (const Result &result : results) {
      check(program, inst, result);
    }
  }
  if (inst.hazards != 0 || inst.kind == Class::Matrix) {
    checkRecent(program, inst);
  }
  if (inst.hazards & (IsVector | StoresWide | WritesM0)) {
    recent[next] = {&inst, states};
    next = (next + 1) % recent.size();
  }
  if (inst.kind == Class::Matrix) {
    const RegisterRange c = inst.reads.size() > 2 ? inst.reads[2] : RegisterRange{};
    // Matrix instructions write in order: what this one writes is no longer an older one's.
    for (Result &result : results) {
      result.d = without(result.d, inst.d);
    }
    results.push_back({states, inst.d, c, inst.index, uint8_t(inst.shape->passes), inst.shape->isXdl});
  }
  // s_nop N counts N + 1.
  const bool nop = inst.kind == Class::Wait && program.source[inst.index].name == "s_nop";
  states += nop ? uint64_t(inst.immediate) + 1 : 1;
}

void Hazards::stepRdna3(const Program &program, const Inst &inst) {
  const bool matrix = inst.kind == Class::Matrix;
  if (!matrix && !(inst.hazards & IsVector)) {
    if (inst.hazards & WaitsForVector) {
      specials = {};
    }
    return;
  }
  if (matrix && lastVector && lastVector->kind == Class::Matrix &&
      (overlap(inst.reads[0], lastVector->d) || overlap(inst.reads[1], lastVector->d))) {
    fail(FaultKind::Race, "expects a vector instruction between {} and a matrix product of its result, but got none",
         describe(program, *lastVector));
  }
  // As many vector instructions, or two transcendentals, in between are enough.
  constexpr uint64_t enough = 6;
  for (const Recent &before : specials) {
    if (!before.inst || vectors - before.state - 1 >= enough) {
      continue;
    }
    for (const RegisterRange &range : inst.reads) {
      if (std::any_of(before.inst->writes.begin(), before.inst->writes.end(),
                      [&](const RegisterRange &written) { return overlap(range, written); })) {
        fail(FaultKind::Race,
             "expects {} vector instructions or a wait (s_waitcnt_depctr) between {} and the use of its "
             "result, but got {}",
             enough, describe(program, *before.inst), vectors - before.state - 1);
      }
    }
  }
  // RDNA3.5 (gfx115x) waits by itself.
  if (inst.kind == Class::Transcendental && program.chip->minor == 0) {
    specials = {specials[1], Recent{&inst, vectors}};
  }
  lastVector = &inst;
  ++vectors;
}

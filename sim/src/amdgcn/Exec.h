//===- Exec.h - Functions that execute instructions -------------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_EXEC_H
#define KVCSIM_AMDGCN_EXEC_H

#include "amdgcn/Machine.h"

namespace kvc::sim::amdgcn {

/// Writes the active lanes of the destination.
void writeRows(Wave &wave, const Inst &inst, uint32_t *rows, uint64_t mask);

void execLanes(Wave &wave, const Inst &inst);
void execDual(Wave &wave, const Inst &inst);
/// A lane-wise operation on scalar registers.
void execScalarLanes(Wave &wave, const Inst &inst);
void execReadFirstLane(Wave &wave, const Inst &inst);
void execReadLane(Wave &wave, const Inst &inst);
void execWriteLane(Wave &wave, const Inst &inst);
void execMbcnt(Wave &wave, const Inst &inst);
void execPermlane16(Wave &wave, const Inst &inst);
void execPermlaneSwap(Wave &wave, const Inst &inst);
void execPermlane64(Wave &wave, const Inst &inst);
void execSwap(Wave &wave, const Inst &inst);

// Memory. Flags of an access:
enum AccessFlags : uint32_t {
  /// Values narrower than a register: sign-extended; the upper half of the destination is written, or the lower one,
  /// and the other stays.
  SignExtend = 1,
  D16 = 2,
  D16High = 4,
  /// A store; an atomic that gives back the value before.
  IsStore = 8,
  IsAtomic = 16,
  ReturnsOld = 32,
  /// Flat addresses can mean LDS and private memory.
  IsFlat = 64,
  IsScratch = 128,
  /// Buffer addressing.
  OffEn = 256,
  IdxEn = 512,
  /// The destination is LDS.
  ToLds = 1024,
  /// LDS: two addresses; of 64 elements each; the address is not used.
  TwoAddresses = 2048,
};
enum class AtomicOp : uint8_t {
  Swap,
  CmpSwap,
  Add,
  Sub,
  Rsub,
  Min,
  Max,
  UMin,
  UMax,
  And,
  Or,
  Xor,
  Inc,
  Dec,
  FAdd,
  FMin,
  FMax,
  PkAddF16,
  PkAddBF16
};
/// Sources of memory instructions, by place.
enum MemorySource { AddressSource, DataSource, ScalarSource, ResourceSource };

void execScalarLoad(Wave &wave, const Inst &inst);
void execGlobal(Wave &wave, const Inst &inst);
void execBuffer(Wave &wave, const Inst &inst);
void execLds(Wave &wave, const Inst &inst);
/// ds_bpermute (operation 0), ds_permute (1) and ds_swizzle (2).
void execLdsPermute(Wave &wave, const Inst &inst);
/// ds_read_b64_tr_b16 (operation 16) and its kind.
void execLdsTranspose(Wave &wave, const Inst &inst);

/// The counter that an instruction of a kind counts in on a chip.
Counter counterOf(const Chip &chip, Class kind);
/// The value after an atomic operation, of 4 or 8 bytes.
uint64_t atomicResult(AtomicOp op, unsigned bytes, uint64_t old, uint64_t value, uint64_t compare);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_EXEC_H

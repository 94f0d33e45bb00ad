//===- Program.h - Decoded kernels ------------------------------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_PROGRAM_H
#define KVCSIM_AMDGCN_PROGRAM_H

#include "amdgcn/CodeObject.h"
#include "amdgcn/Lanes.h"
#include "amdgcn/Text.h"

#include <array>
#include <memory>
#include <vector>

namespace kvc::sim::amdgcn {

struct Wave;
struct Inst;
using ExecFn = void (*)(Wave &, const Inst &);

/// What an instruction is counted as.
enum class Class : uint8_t {
  Scalar,
  ScalarLoad,
  Branch,
  Vector,
  Packed,
  Transcendental,
  Lane,
  Matrix,
  Load,
  Store,
  Atomic,
  LdsRead,
  LdsWrite,
  LdsAtomic,
  Barrier,
  Wait,
  Other,
  Count
};
std::string_view nameOf(Class kind);

/// A source of a vector or scalar instruction.
struct Source {
  enum class Kind : uint8_t { None, Vector, Scalar, Constant };
  Kind kind = Kind::None;
  Type type = Type::None;
  uint8_t dwords = 1;
  uint16_t reg = 0;
  /// Input modifiers; `negHi`, `sel` and `selHi` are those of packed and mixed operations, `hi` the upper half of a
  /// 16-bit value, `sdwa` what part of the register is read (SdwaSelect).
  bool neg = false, abs = false, sext = false, hi = false;
  bool negHi = false, sel = false, selHi = false;
  uint8_t sdwa = 6;
  /// Any modifier at all.
  bool modified = false;
  uint64_t value = 0;
  /// Of a constant: its first row.
  uint32_t row = 0;
};

enum SdwaSelect : uint8_t { Byte0, Byte1, Byte2, Byte3, Word0, Word1, Dword };

/// Registers that are read or written one after the other.
struct RegisterRange {
  uint16_t first = 0;
  uint8_t count = 0;
  bool vector = false;
};

/// Where a lane of the first source comes from.
struct Permutation {
  std::array<int8_t, rowLanes> from;
  /// Lanes that write.
  uint64_t enabled = ~uint64_t(0);
  bool zeroInvalid = false, readsInactive = false;
};

/// How the 16 bits (or the part) of a result go into the register.
enum class Merge : uint8_t { Whole, Low, High, Sdwa };
enum class SdwaUnused : uint8_t { Pad, Sext, Preserve };

struct MatrixShape;

enum HazardFlags : uint16_t {
  IsVector = 1,
  IsTranscendental = 2,
  /// Reads lanes through DPP; memory addresses in scalar registers; VCC as v_div_fmas; a lane's number in a scalar.
  ReadsByDpp = 4,
  ReadsScalarAddress = 8,
  ReadsVccScale = 16,
  ReadsLaneNumber = 32,
  /// v_readlane, v_readfirstlane and v_writelane.
  MovesLane = 64,
  /// Writes a part of a register.
  WritesPart = 128,
  /// A store of more than 64 bits, whose data is read late.
  StoresWide = 256,
  /// A scalar instruction that writes M0; a load to LDS, which reads it.
  WritesM0 = 512,
  LoadsToLds = 1024,
  /// Exchanges rows of two registers.
  SwapsLanes = 2048,
  /// Waits for the results of all vector instructions (gfx11).
  WaitsForVector = 4096,
};

struct Inst {
  ExecFn exec = nullptr;
  const LaneRow *row = nullptr;
  LaneFn lane = nullptr;
  Class kind = Class::Other;
  uint32_t index = 0;
  Source s[4];
  uint8_t sources = 0;

  RegisterRange d;
  Type dType = Type::None;
  /// Scalar registers of the masks; sreg::Null for none.
  uint16_t maskOut = sreg::Null, maskIn = sreg::Null;
  bool clamp = false;
  /// 1: times 2, 2: times 4, 3: half.
  uint8_t omod = 0;
  Merge merge = Merge::Whole;
  uint8_t sdwaSelect = Dword;
  SdwaUnused sdwaUnused = SdwaUnused::Pad;
  /// Output modifiers or a merge.
  bool finished = true;
  std::shared_ptr<const Permutation> permutation;

  /// Branches: the instruction that is next. Waits: the counts.
  int32_t target = -1;
  int64_t immediate = 0;
  /// Memory: bytes of a lane's access, offsets, and what else the instruction says.
  uint16_t bytes = 0;
  int64_t offset = 0, offset2 = 0;
  uint32_t flags = 0;
  uint32_t operation = 0;
  /// What distances to earlier instructions it needs (HazardFlags).
  uint16_t hazards = 0;
  const MatrixShape *shape = nullptr;

  /// What is checked against loads that are on their way.
  std::vector<RegisterRange> reads, writes;
  /// The other half of a dual instruction.
  std::shared_ptr<Inst> second;
};

struct Program {
  std::string name;
  const CodeObject *object = nullptr;
  const KernelInfo *kernel = nullptr;
  const Chip *chip = nullptr;
  unsigned waveSize = 64;
  /// Where the code object lies in device memory.
  uint64_t base = 0;
  std::vector<Inst> code;
  std::vector<TextInst> source;
  /// Constants as rows of rowLanes lanes.
  std::vector<uint32_t> constants;
  /// Results can depend on the order of the work-groups: one thread runs them.
  bool ordered = false;
  bool usesFlat = false;

  int32_t indexOf(uint64_t address) const;
};

/// Disassembles and decodes a kernel. Throws Fault for what is not known only when it can be reached: unknown
/// instructions fault when they run.
std::unique_ptr<Program> decodeKernel(const CodeObject &object, const KernelInfo &kernel, uint64_t base);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_PROGRAM_H

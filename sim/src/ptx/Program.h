//===- Program.h - Decoded kernels ------------------------------*- C++ -*-===//
//
// A kernel with the functions it calls, ready to run: every instruction has the function that executes it and the
// places of its operands. Registers are arrays of 32 lanes; a place is a byte offset into the registers of the warp, or
// into the constants of the program (immediates are constants too, so that every operand is an array).
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_PTX_PROGRAM_H
#define KVCSIM_PTX_PROGRAM_H

#include "ptx/Module.h"

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

namespace kvc::sim::ptx {

inline constexpr unsigned laneCount = 32;
inline constexpr uint32_t allLanes = 0xffffffff;

struct Warp;
struct Inst;
struct Row;

/// Executes an instruction for the lanes of `active`.
using ExecFn = void (*)(Warp &warp, const Inst &inst, uint32_t active);

/// A place of an operand: bit 31 says that it is among the constants.
using Place = uint32_t;
inline constexpr Place noPlace = 0x7fffffff;
inline constexpr Place constantBit = 0x80000000;

/// What the loop does with an instruction besides executing it.
enum class Flow : uint8_t {
  Plain,
  Branch,
  BranchIndexed,
  Call,
  Return,
  Exit,
  /// May have to wait: `exec` sets warp.blocked, and the instruction is executed again later.
  Wait,
};

/// What the counters call an instruction.
enum class Class : uint8_t {
  Integer,
  Float32,
  Float64,
  Half,
  Special, ///< ex2, rcp, ... of the special function unit
  Convert,
  Compare,
  Logic,
  Move,
  Shuffle,
  Vote,
  Mma,
  LoadGlobal,
  StoreGlobal,
  LoadShared,
  StoreShared,
  LoadOther,
  StoreOther,
  MatrixLoad,
  AsyncCopy,
  Atomic,
  Barrier,
  Fence,
  Control,
  Other,
  Count,
};
std::string_view nameOf(Class c);

struct Inst {
  ExecFn exec = nullptr;
  /// Place of the guard's predicate, or noPlace.
  Place guard = noPlace;
  bool guardNegated = false;
  Flow flow = Flow::Plain;
  Class kind = Class::Other;
  /// Must be executed by all lanes of the warp that have not exited.
  bool aligned = false;
  uint16_t count = 0;
  /// Places of the operands, destinations first.
  const Place *op = nullptr;
  /// Of memory operands: added to the address. Of others: as the executing function says.
  int64_t imm = 0;
  /// Modifiers, packed as the executing function says.
  uint64_t aux = 0;
  int32_t target = -1;
  /// Where lanes that part at this branch meet again; -1: only at the exit.
  int32_t meet = -1;
  /// f16 multiply-adds of a matrix instruction; for its counter.
  uint32_t macs = 0;
  /// Index into Program::source.
  uint32_t index = 0;
};

/// Registers that the launch fills before a warp starts.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterCtaRank,
  ClusterNctaRank,
  IsExplicitCluster,
  DynamicSmemSize,
  TotalSmemSize,
  WarpSize,
  Count,
};

struct SourceLine {
  /// Points into the module.
  const Instruction *instruction = nullptr;
  const Function *function = nullptr;
};

struct Program {
  std::string name;
  const Module *module = nullptr;
  const Function *kernel = nullptr;
  std::vector<Inst> code;
  /// Where the kernel starts in `code`.
  int32_t entry = 0;
  std::vector<SourceLine> source;
  std::deque<std::vector<Place>> operandLists;
  /// Bytes of a warp's registers.
  uint32_t registerBytes = 0;
  std::vector<uint8_t> constants;
  /// `constants` at an aligned place, made when the program is complete.
  const uint8_t *constantData() const { return alignedConstants; }
  void alignConstants();
  std::vector<std::pair<Special, Place>> specials;
  /// Parameters of the kernel: offset and size in the parameter block, in order.
  struct Parameter {
    std::string name;
    uint32_t offset;
    uint32_t bytes;
    Type type;
    bool isArray;
  };
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  /// Static shared memory, without the reserved bytes at address 0; where dynamic shared memory starts.
  uint32_t staticShared = 0;
  uint32_t dynamicSharedBase = 0;
  uint32_t localBytes = 0;
  /// Has wgmma: accesses to registers are followed.
  bool hasWarpgroupProducts = false;
  /// Results can depend on the order of CTAs (global atomics, acquire and release): they are not run concurrently.
  bool ordered = false;
  /// Label names by instruction, for reports.
  std::map<uint32_t, std::string> labels;

private:
  std::vector<uint8_t> constantStorage;
  uint8_t *alignedConstants = nullptr;
};

/// Where the module's variables were put in global memory.
using VariableAddresses = std::unordered_map<const Variable *, uint64_t>;

/// Decodes a kernel for a chip (`sm_80`, as a number 80, with its suffix). Throws Fault with the line for everything
/// that the tables of instructions do not have.
struct Target {
  unsigned sm = 80;
  /// 'a', 'f' or 0.
  char suffix = 0;
};
Target parseTarget(std::string_view name);
std::unique_ptr<Program> decodeKernel(const Module &module, const Function &kernel, const VariableAddresses &addresses,
                                      Target target);

/// The first address of each window in the generic address space, and the bytes of shared memory that the system keeps.
inline constexpr uint64_t sharedWindow = uint64_t(0x1f01) << 32;
inline constexpr uint64_t localWindow = uint64_t(0x1f02) << 32;
inline constexpr uint64_t paramWindow = uint64_t(0x1f03) << 32;
inline constexpr uint32_t reservedShared = 1024;
/// Local addresses start here, so that null is no local variable.
inline constexpr uint32_t reservedLocal = 64;
/// Addresses of other CTAs of the cluster have their rank plus one in these bits.
inline constexpr unsigned clusterRankShift = 24;

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_PROGRAM_H

//===- CodeObject.h - HSACO files -------------------------------*- C++ -*-===//
//
// A code object of the HSA ABI (versions 5 and 6): an ELF file with the code, a descriptor of 64 bytes for each kernel
// (`K.kd`) and metadata in a note.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_AMDGCN_CODEOBJECT_H
#define KVCSIM_AMDGCN_CODEOBJECT_H

#include "amdgcn/Chips.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvc::sim::amdgcn {

struct KernelArgument {
  std::string name;
  /// The metadata's word for what it is: by_value, global_buffer, hidden_block_count_x, ...
  std::string kind;
  uint32_t offset = 0, bytes = 0;

  bool hidden() const { return kind.rfind("hidden_", 0) == 0; }
};

struct KernelInfo {
  std::string name;
  std::vector<KernelArgument> arguments;
  uint32_t kernargBytes = 0;
  uint32_t ldsBytes = 0, privateBytes = 0;
  bool dynamicStack = false;
  uint32_t vgprs = 0, agprs = 0, sgprs = 0, vgprSpills = 0, sgprSpills = 0;
  uint32_t waveSize = 64;
  uint32_t maxThreads = 1024;
  uint32_t requiredBlock[3] = {0, 0, 0};
  /// Of the descriptor: COMPUTE_PGM_RSRC1 to 3, KERNEL_CODE_PROPERTIES, KERNARG_PRELOAD.
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0, preload = 0;
  /// Virtual address of the code and its bytes.
  uint64_t entry = 0, codeBytes = 0;

  /// How many arguments a caller gives: all but the hidden ones.
  std::vector<const KernelArgument *> explicitArguments() const;
};

struct Segment {
  uint64_t address, bytes;
  bool writable;
};

struct DataSymbol {
  uint64_t address, bytes;
};

/// An address that depends on where the code object is loaded.
struct LoadRelocation {
  uint64_t address;
  uint64_t value;
};

struct CodeObject {
  std::string name;
  const Chip *chip = nullptr;
  /// The bytes of all segments, by virtual address from 0.
  std::vector<uint8_t> image;
  std::vector<Segment> segments;
  std::map<std::string, KernelInfo, std::less<>> kernels;
  std::map<std::string, DataSymbol, std::less<>> variables;
  std::vector<LoadRelocation> relocations;
};

/// Reads a file's bytes, a clang offload bundle too (its code object for `chip`). Faults name `name`.
CodeObject readCodeObject(const std::string &name, const std::vector<uint8_t> &bytes, const Chip &chip);

/// The chip that a code object is for, by its header. Faults for a bundle of several.
std::string targetOf(const std::string &name, const std::vector<uint8_t> &bytes);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_CODEOBJECT_H

//===- Chips.h - Facts of the AMD chips that are simulated ------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_CHIPS_H
#define KVCSIM_AMDGCN_CHIPS_H

#include <cstdint>
#include <span>
#include <string_view>

namespace kvc::sim::amdgcn {

/// Instruction sets that differ in what an instruction does.
enum class Family : uint8_t { Cdna2, Cdna3, Cdna4, Rdna3, Rdna4 };

/// One product per architecture, with the figures that its vendor has published.
struct Chip {
  std::string_view target;
  /// In the flags of its code objects.
  unsigned machine;
  std::string_view name;
  Family family;
  int major, minor, stepping;
  unsigned waveSize;
  unsigned computeUnits;
  /// Bytes of LDS that a work-group can have; banks of 4 bytes.
  unsigned ldsBytes, ldsBanks;
  /// Vector registers of a SIMD's lane, in the granularity in which a wave gets them, and the most a wave can have.
  unsigned vgprs, vgprGranule, vgprsPerWave;
  unsigned wavesPerSimd, simdsPerUnit;
  int l2Bytes;
  int clockKhz, memoryClockKhz, memoryBusBits;
  uint64_t memoryBytes;
  /// Rates of a model of the time: flops of f16 matrix products and lanes of f32 and of transcendentals of one compute
  /// unit and cycle; instructions of all its waves; bytes of LDS; GB/s of memory.
  unsigned matrixFlops, f32Lanes, specialLanes, issues, sharedBytes;
  double gigabytesPerSecond;

  bool cdna() const { return family <= Family::Cdna4; }
  /// Formats of 8-bit floats without negative zero and infinity.
  bool fnuz() const { return family == Family::Cdna3; }
};

std::span<const Chip> chips();
/// Null when no chip has this target.
const Chip *findChip(std::string_view target);

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_CHIPS_H

//===- Chips.cpp - Facts of the AMD chips that are simulated --------------===//
#include "amdgcn/Chips.h"

#include <llvm/BinaryFormat/ELF.h>

using namespace kvc::sim::amdgcn;
using namespace llvm::ELF;

static constexpr uint64_t GiB = uint64_t(1) << 30;

// A compute unit of RDNA is half of a work-group processor. One GCD of the MI250X.
// clang-format off
static constexpr Chip table[] = {
    // target    ELF flags                       name                              family         version    wave CUs LDS    banks VGPRs granule per wave waves SIMDs L2         clock    memory   bus   memory     matrix f32 sfu issue LDS GB/s
    {"gfx90a",  EF_AMDGPU_MACH_AMDGCN_GFX90A,  "kvc simulator (MI250X, one GCD)", Family::Cdna2,  9, 0, 10, 64, 110, 65536, 32,   512,  8,     512,    8,  4,    8388608,  1700000, 1600000, 4096,  64 * GiB, 1024,  128, 16, 4, 128, 1638},
    {"gfx942",  EF_AMDGPU_MACH_AMDGCN_GFX942,  "kvc simulator (MI300X)",          Family::Cdna3,  9, 4,  2, 64, 304, 65536, 32,   512,  8,     512,    8,  4,    4194304,  2100000, 2600000, 8192, 192 * GiB, 2048,  128, 16, 4, 128, 5300},
    {"gfx950",  EF_AMDGPU_MACH_AMDGCN_GFX950,  "kvc simulator (MI355X)",          Family::Cdna4,  9, 5,  0, 64, 256, 163840, 64,  512,  8,     512,    8,  4,    4194304,  2400000, 4000000, 8192, 288 * GiB, 4096,  128, 16, 4, 128, 8000},
    {"gfx1100", EF_AMDGPU_MACH_AMDGCN_GFX1100, "kvc simulator (RX 7900 XTX)",     Family::Rdna3, 11, 0,  0, 32,  96, 65536, 32,  1536, 24,     256,   16,  2,    6291456,  2500000, 2500000,  384,  24 * GiB,  512,  128, 16, 2, 128,  960},
    {"gfx1151", EF_AMDGPU_MACH_AMDGCN_GFX1151, "kvc simulator (Radeon 8060S)",    Family::Rdna3, 11, 5,  1, 32,  40, 65536, 32,  1536, 24,     256,   16,  2,    2097152,  2900000, 4000000,  256, 128 * GiB,  512,  128, 16, 2, 128,  256},
    {"gfx1201", EF_AMDGPU_MACH_AMDGCN_GFX1201, "kvc simulator (RX 9070 XT)",      Family::Rdna4, 12, 0,  1, 32,  64, 65536, 32,  1536, 24,     256,   16,  2,    8388608,  2970000, 2518000,  256,  16 * GiB, 1024,  128, 16, 2, 128,  640},
};
// clang-format on

std::span<const Chip> kvc::sim::amdgcn::chips() { return table; }

const Chip *kvc::sim::amdgcn::findChip(std::string_view target) {
  for (const Chip &chip : table) {
    if (chip.target == target) {
      return &chip;
    }
  }
  return nullptr;
}

//===- Chips.cpp - Facts of the chips that are simulated ------------------===//
#include "cuda/Chips.h"

using namespace kvc::sim::cuda;

static constexpr uint64_t GiB = uint64_t(1) << 30;

// clang-format off
static constexpr Chip table[] = {
    // target    name                           major minor SMs  shared/SM shared/block threads blocks L2        clock    memory clock bus   memory
    {"sm_80",  "kvc simulator (A100 80GB)",     8, 0, 108, 167936, 166912, 2048, 32, 41943040,  1410000, 1593000,  5120, 80 * GiB},
    {"sm_86",  "kvc simulator (RTX 3090)",      8, 6,  82, 102400, 101376, 1536, 16,  6291456,  1695000, 9751000,   384, 24 * GiB},
    {"sm_87",  "kvc simulator (AGX Orin)",      8, 7,  16, 167936, 166912, 1536, 16,  4194304,  1300000, 3200000,   256, 64 * GiB},
    {"sm_89",  "kvc simulator (RTX 4090)",      8, 9, 128, 102400, 101376, 1536, 24, 75497472,  2520000, 10501000,  384, 24 * GiB},
    {"sm_90a", "kvc simulator (H100 SXM)",      9, 0, 132, 233472, 232448, 2048, 32, 52428800,  1980000, 2619000,  5120, 80 * GiB},
    {"sm_100a", "kvc simulator (B200)",        10, 0, 148, 233472, 232448, 2048, 32, 132644864, 1965000, 3996000,  8192, 180 * GiB},
    {"sm_103a", "kvc simulator (B300)",        10, 3, 148, 233472, 232448, 2048, 32, 132644864, 1965000, 3996000,  8192, 268 * GiB},
    {"sm_120", "kvc simulator (RTX 5090)",     12, 0, 170, 102400, 101376, 1536, 24, 100663296, 2407000, 14001000,  512, 32 * GiB},
};
// clang-format on

std::span<const Chip> kvc::sim::cuda::chips() { return table; }

const Chip *kvc::sim::cuda::findChip(std::string_view target) {
  for (const Chip &chip : table) {
    const bool suffixed = chip.target.back() == 'a' && chip.target.substr(0, chip.target.size() - 1) == target;
    if (chip.target == target || suffixed) {
      return &chip;
    }
  }
  return nullptr;
}

bool kvc::sim::cuda::attributeOf(const Chip &chip, int attribute, int &value) {
  switch (attribute) {
  case MaxThreadsPerBlock:
  case MaxBlockDimX:
  case MaxBlockDimY:
    value = 1024;
    return true;
  case MaxBlockDimZ:
    value = 64;
    return true;
  case MaxGridDimX:
  case MaxPitch:
    value = 0x7fffffff;
    return true;
  case MaxGridDimY:
  case MaxGridDimZ:
    value = 65535;
    return true;
  case MaxSharedMemoryPerBlock:
    value = 49152;
    return true;
  case TotalConstantMemory:
  case MaxRegistersPerBlock:
  case MaxRegistersPerMultiprocessor:
    value = 65536;
    return true;
  case WarpSize:
    value = 32;
    return true;
  case ClockRate:
    value = chip.clockKhz;
    return true;
  case MultiprocessorCount:
    value = chip.multiprocessors;
    return true;
  case MemoryClockRate:
    value = chip.memoryClockKhz;
    return true;
  case GlobalMemoryBusWidth:
    value = chip.memoryBusBits;
    return true;
  case L2CacheSize:
    value = chip.l2Bytes;
    return true;
  case MaxThreadsPerMultiprocessor:
    value = chip.threadsPerMultiprocessor;
    return true;
  case ComputeCapabilityMajor:
    value = chip.major;
    return true;
  case ComputeCapabilityMinor:
    value = chip.minor;
    return true;
  case MaxSharedMemoryPerMultiprocessor:
    value = chip.sharedPerMultiprocessor;
    return true;
  case MaxSharedMemoryPerBlockOptin:
    value = chip.sharedPerBlockOptin;
    return true;
  case MaxBlocksPerMultiprocessor:
    value = chip.blocksPerMultiprocessor;
    return true;
  case ReservedSharedMemoryPerBlock:
    value = 1024;
    return true;
  case ClusterLaunch:
  case TensorMapAccessSupported:
    value = chip.major >= 9;
    return true;
  case GpuOverlap:
  case CanMapHostMemory:
  case ConcurrentKernels:
  case AsyncEngineCount:
  case UnifiedAddressing:
  case StreamPrioritiesSupported:
  case CooperativeLaunch:
  case HostRegisterSupported:
  case MemoryPoolsSupported:
    value = 1;
    return true;
  case KernelExecTimeout:
  case Integrated:
  case ComputeMode:
  case EccEnabled:
  case ManagedMemory:
  case PciBusId:
  case PciDeviceId:
  case PciDomainId:
    value = 0;
    return true;
  default:
    return false;
  }
}

//===- Kernels.h - Kernels of either kind -----------------------*- C++ -*-===//
#ifndef KVCSIM_KVC_SIM_KERNELS_H
#define KVCSIM_KVC_SIM_KERNELS_H

#include "common/GlobalMemory.h"
#include "common/Launch.h"

#include <memory>
#include <nlohmann/json.hpp>

namespace kvc::sim {

struct KernelParameter {
  std::string name;
  uint32_t offset, bytes;
};

/// A kernel of PTX or of AMD's machine code.
class Kernel {
public:
  virtual ~Kernel() = default;
  std::string name;
  std::vector<KernelParameter> parameters;
  uint32_t parameterBytes = 0;
  /// The cluster that the kernel requires; zeros for none.
  Dim3 requiredCluster{0, 0, 0};

  virtual LaunchResult run(const LaunchConfig &config, const LaunchOptions &options) = 0;
  virtual nlohmann::json json(const LaunchResult &result, bool instructions) = 0;
  virtual std::string text(const LaunchResult &result) = 0;
};

/// Loads a kernel of a file for a chip: an ELF file or offload bundle is a HSACO, anything else PTX. An empty target:
/// sm_80 for PTX; HSACO says its own. Faults name the file.
std::unique_ptr<Kernel> loadKernel(GlobalMemory &memory, const std::string &path, const std::string &kernel,
                                   const std::string &target);

} // namespace kvc::sim

#endif // KVCSIM_KVC_SIM_KERNELS_H

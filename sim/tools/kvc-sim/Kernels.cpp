//===- Kernels.cpp - Kernels of either kind -------------------------------===//
#include "Kernels.h"

#include "amdgcn/Report.h"
#include "amdgcn/Session.h"
#include "common/Fault.h"
#include "ptx/Report.h"
#include "ptx/Session.h"

#include <cstring>
#include <fstream>

using namespace kvc::sim;

namespace {

class PtxKernel : public Kernel {
public:
  PtxKernel(GlobalMemory &memory, const std::string &path, std::string text, const std::string &kernel,
            const std::string &target)
      : memory(memory), module(memory, path, std::move(text), ptx::parseTarget(target)), program(module.kernel(kernel)),
        rates(ptx::ratesOf(ptx::parseTarget(target).sm)) {
    name = program.name;
    parameterBytes = program.parameterBytes;
    for (const auto &parameter : program.parameters) {
      parameters.push_back({parameter.name, parameter.offset, parameter.bytes});
    }
    const auto &required = program.kernel->clusterSize;
    requiredCluster = {required[0], required[1], required[2]};
  }
  LaunchResult run(const LaunchConfig &config, const LaunchOptions &options) override {
    return runKernel(program, config, memory, options);
  }
  nlohmann::json json(const LaunchResult &result, bool instructions) override {
    return reportJson(program, result, instructions, rates);
  }
  std::string text(const LaunchResult &result) override { return reportText(program, result, rates); }

private:
  GlobalMemory &memory;
  ptx::LoadedModule module;
  const ptx::Program &program;
  const ptx::ChipRates *rates;
};

class AmdKernel : public Kernel {
public:
  AmdKernel(GlobalMemory &memory, const std::string &path, const std::vector<uint8_t> &bytes, const std::string &kernel,
            const amdgcn::Chip &chip)
      : memory(memory), module(memory, path, bytes, chip), program(module.kernel(kernel)) {
    name = program.name;
    for (const amdgcn::KernelArgument *argument : program.kernel->explicitArguments()) {
      parameters.push_back({argument->name, argument->offset, argument->bytes});
      parameterBytes = std::max(parameterBytes, argument->offset + argument->bytes);
    }
  }
  LaunchResult run(const LaunchConfig &config, const LaunchOptions &options) override {
    return runKernel(program, config, memory, options);
  }
  nlohmann::json json(const LaunchResult &result, bool instructions) override {
    return reportJson(program, result, instructions);
  }
  std::string text(const LaunchResult &result) override { return reportText(program, result); }

private:
  GlobalMemory &memory;
  amdgcn::LoadedModule module;
  const amdgcn::Program &program;
};

} // namespace

std::unique_ptr<Kernel> kvc::sim::loadKernel(GlobalMemory &memory, const std::string &path, const std::string &kernel,
                                             const std::string &target) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(FaultKind::InvalidValue, "{}: expects a readable PTX or HSACO file, but got: {}", path, std::strerror(errno));
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const bool isElf = text.starts_with("\x7f"
                                      "ELF"),
             isBundle = text.starts_with("__CLANG_OFFLOAD_BUNDLE__");
  if (!isElf && !isBundle) {
    return std::make_unique<PtxKernel>(memory, path, std::move(text), kernel, target.empty() ? "sm_80" : target);
  }
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const std::string wanted = target.empty() ? std::string(amdgcn::targetOf(path, bytes)) : target;
  const amdgcn::Chip *chip = amdgcn::findChip(wanted);
  if (!chip) {
    std::string known;
    for (const amdgcn::Chip &candidate : amdgcn::chips()) {
      known += (known.empty() ? "" : ", ") + std::string(candidate.target);
    }
    fail(FaultKind::InvalidValue, "expects a chip out of {}, but got {}", known, wanted);
  }
  return std::make_unique<AmdKernel>(memory, path, bytes, kernel, *chip);
}

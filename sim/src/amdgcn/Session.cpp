//===- Session.cpp - A loaded code object in device memory ----------------===//
#include "amdgcn/Session.h"

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

LoadedModule::LoadedModule(GlobalMemory &memory, std::string name, const std::vector<uint8_t> &bytes, const Chip &chip)
    : memory(memory), code(readCodeObject(name, bytes, chip)) {
  const uint64_t size = std::max<uint64_t>(code.image.size(), 1);
  base = memory.allocate(size, "the code object " + code.name, 4096);
  uint8_t *host = memory.at(base, size, "code object");
  std::copy(code.image.begin(), code.image.end(), host);
  for (const LoadRelocation &relocation : code.relocations) {
    const uint64_t value = base + relocation.value;
    std::memcpy(host + relocation.address, &value, 8);
  }
}

LoadedModule::~LoadedModule() { memory.free(base); }

const Program &LoadedModule::kernel(std::string_view name) {
  if (auto found = kernels.find(name); found != kernels.end()) {
    return *found->second;
  }
  const auto kernel = code.kernels.find(name);
  if (kernel == code.kernels.end()) {
    std::string known;
    for (const auto &[candidate, info] : code.kernels) {
      known += (known.empty() ? "" : ", ") + candidate;
    }
    fail(FaultKind::InvalidValue, "{}: expects a kernel out of {}, but got {}", code.name,
         known.empty() ? "none" : known, name);
  }
  return *kernels.emplace(std::string(name), decodeKernel(code, kernel->second, base)).first->second;
}

bool LoadedModule::variable(std::string_view name, uint64_t &address, uint64_t &bytes) const {
  const auto found = code.variables.find(name);
  if (found == code.variables.end()) {
    return false;
  }
  address = base + found->second.address;
  bytes = found->second.bytes;
  return true;
}

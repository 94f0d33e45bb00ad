//===- Session.cpp - A loaded module in device memory ---------------------===//
#include "ptx/Session.h"

#include "common/Fault.h"

using namespace kvc::sim;
using namespace kvc::sim::ptx;

/// Of a variable.
static constexpr uint64_t mostBytes = uint64_t(1) << 30;

LoadedModule::LoadedModule(GlobalMemory &memory, std::string name, std::string text, Target target)
    : memory(memory), target(target), parsed(parseModule(std::move(name), std::move(text))) {
  const Target wanted = parseTarget(parsed->target);
  // Code with 'a' runs on that chip only, code with 'f' on its family.
  const bool fits = wanted.suffix == 'a'   ? wanted.sm == target.sm && target.suffix == 'a'
                    : wanted.suffix == 'f' ? wanted.sm / 10 == target.sm / 10 && wanted.sm <= target.sm
                                           : wanted.sm <= target.sm;
  if (!fits) {
    fail(FaultKind::Unsupported, "{}: expects code for sm_{}{} or older, but got .target {}", parsed->name, target.sm,
         target.suffix ? std::string(1, target.suffix) : "", parsed->target);
  }
  try {
    placeVariables();
  } catch (...) {
    freeVariables();
    throw;
  }
}

void LoadedModule::placeVariables() {
  for (const auto &variable : parsed->variables) {
    if (variable->space == Space::Shared || variable->isExtern) {
      continue;
    }
    if (variable->bytes > mostBytes) {
      fail(FaultKind::Unsupported, "{}:{}: expects variables of at most {} bytes, but got {}", parsed->name,
           variable->line, mostBytes, variable->bytes);
    }
    const uint64_t address = memory.allocate(std::max<uint64_t>(variable->bytes, 1), "variable " + variable->name,
                                             std::max<uint64_t>(variable->align, 256));
    // What has no initial value is zero.
    uint8_t *host = memory.at(address, std::max<uint64_t>(variable->bytes, 1), "variable");
    std::memset(host, 0, variable->bytes);
    std::copy(variable->initial.begin(), variable->initial.end(), host);
    addresses.emplace(variable.get(), address);
  }
  for (const auto &variable : parsed->variables) {
    for (const Relocation &relocation : variable->relocations) {
      const Variable *to = parsed->findVariable(relocation.symbol);
      auto found = to ? addresses.find(to) : addresses.end();
      if (found == addresses.end()) {
        fail(FaultKind::Unsupported, "{}:{}: expects the address of a global variable of this module, but got {}",
             parsed->name, variable->line, relocation.symbol);
      }
      const uint64_t value = found->second + uint64_t(relocation.addend);
      std::memcpy(memory.at(addresses.at(variable.get()), variable->bytes, "variable") + relocation.offset, &value, 8);
    }
    if (variable->space == Space::Const && addresses.count(variable.get())) {
      memory.find(addresses.at(variable.get()))->readOnly = true;
    }
  }
}

void LoadedModule::freeVariables() {
  for (const auto &[variable, address] : addresses) {
    memory.free(address);
  }
}

LoadedModule::~LoadedModule() { freeVariables(); }

const Program &LoadedModule::kernel(std::string_view name) {
  if (auto found = kernels.find(name); found != kernels.end()) {
    return *found->second;
  }
  const Function *function = parsed->find(name);
  if (!function || !function->isEntry) {
    std::string known;
    for (const auto &candidate : parsed->functions) {
      if (candidate->isEntry) {
        known += (known.empty() ? "" : ", ") + candidate->name;
      }
    }
    fail(FaultKind::InvalidValue, "{}: expects a kernel out of {}, but got {}", parsed->name,
         known.empty() ? "none" : known, name);
  }
  auto program = decodeKernel(*parsed, *function, addresses, target);
  return *kernels.emplace(std::string(name), std::move(program)).first->second;
}

bool LoadedModule::variable(std::string_view name, uint64_t &address, uint64_t &bytes) const {
  const Variable *variable = parsed->findVariable(name);
  auto found = variable ? addresses.find(variable) : addresses.end();
  if (found == addresses.end()) {
    return false;
  }
  address = found->second;
  bytes = variable->bytes;
  return true;
}

//===- Session.h - A loaded module in device memory -------------*- C++ -*-===//
#ifndef KVCSIM_PTX_SESSION_H
#define KVCSIM_PTX_SESSION_H

#include "ptx/Machine.h"

namespace kvc::sim::ptx {

/// A module whose variables are in device memory.
class LoadedModule {
public:
  /// Parses and places the module. The memory must outlive it.
  LoadedModule(GlobalMemory &memory, std::string name, std::string text, Target target);
  ~LoadedModule();
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;

  const Module &module() const { return *parsed; }
  /// The decoded kernel; faults when there is none of that name.
  const Program &kernel(std::string_view name);
  /// Address and size of a global or constant variable; false when there is none.
  bool variable(std::string_view name, uint64_t &address, uint64_t &bytes) const;

private:
  void placeVariables();
  void freeVariables();

  GlobalMemory &memory;
  Target target;
  std::unique_ptr<Module> parsed;
  VariableAddresses addresses;
  std::map<std::string, std::unique_ptr<Program>, std::less<>> kernels;
};

} // namespace kvc::sim::ptx

#endif // KVCSIM_PTX_SESSION_H

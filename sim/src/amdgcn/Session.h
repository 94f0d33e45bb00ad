//===- Session.h - A loaded code object in device memory --------*- C++ -*-===//
#ifndef KVCSIM_AMDGCN_SESSION_H
#define KVCSIM_AMDGCN_SESSION_H

#include "amdgcn/Machine.h"

namespace kvc::sim::amdgcn {

/// A code object whose segments are in device memory.
class LoadedModule {
public:
  /// Reads and places the code object. The memory must outlive it.
  LoadedModule(GlobalMemory &memory, std::string name, const std::vector<uint8_t> &bytes, const Chip &chip);
  ~LoadedModule();
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;

  const CodeObject &object() const { return code; }
  /// The decoded kernel; faults when there is none of that name.
  const Program &kernel(std::string_view name);
  /// Address and size of a variable; false when there is none.
  bool variable(std::string_view name, uint64_t &address, uint64_t &bytes) const;

private:
  GlobalMemory &memory;
  CodeObject code;
  uint64_t base = 0;
  std::map<std::string, std::unique_ptr<Program>, std::less<>> kernels;
};

} // namespace kvc::sim::amdgcn

#endif // KVCSIM_AMDGCN_SESSION_H

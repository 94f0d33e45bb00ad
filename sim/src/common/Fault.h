//===- Fault.h - Errors of a simulated program ------------------*- C++ -*-===//
//
// What stops a simulated program (or its translation) is thrown as a Fault and caught where the launch, or the loading
// of the module, was asked for.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_FAULT_H
#define KVCSIM_COMMON_FAULT_H

#include <fmt/format.h>
#include <stdexcept>
#include <string>

namespace kvc::sim {

/// What kind of error it is; the driver interface maps it to a status.
enum class FaultKind {
  Syntax,
  Unsupported,
  LaterVersion,
  InvalidValue,
  IllegalAddress,
  Misaligned,
  OutOfMemory,
  Race,
  Deadlock,
  Trap,
  Other
};

class Fault : public std::runtime_error {
public:
  Fault(FaultKind kind, const std::string &message) : std::runtime_error(message), kind(kind) {}
  FaultKind kind;
};

template <typename... Args> [[noreturn]] void fail(FaultKind kind, fmt::format_string<Args...> format, Args &&...args) {
  throw Fault(kind, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace kvc::sim

#endif // KVCSIM_COMMON_FAULT_H

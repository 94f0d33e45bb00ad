//===- Library.h - Libraries of GPU drivers, found at run time --*- C++ -*-===//
//
// What the devices behind drivers have in common: a library that is opened with dlopen, which may be a simulator with
// functions of its own beside the driver's, and code that is checked before a driver reads it.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GPU_LIBRARY_H
#define KVC_GPU_LIBRARY_H

#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::rt::gpu {

/// Opens the first of `libraries` that is there; drivers do not survive being unloaded, so it stays open. notFound:
/// none is; the message lists them. `what`: "the HIP API".
Result<void *> openLibrary(const std::vector<std::string> &libraries, std::string_view what);

/// Where a simulator's library may be: named by the user in the variable, beside this library, or where the loader
/// looks.
std::vector<std::string> simulatorLibraries(const std::string &file, const char *variable);

/// True for an ELF file with all of its sections: a driver is not told where an image ends.
bool isWholeElf(std::span<const uint8_t> bytes);

/// N of "cuda:N". notFound for other names.
Result<int> parseOrdinal(std::string_view name);

/// The functions that a simulator has beside a driver's; null in a driver.
struct SimulatorFunctions {
  int (*device)(const char *target) = nullptr;
  const char *(*lastError)() = nullptr;
  int (*setOption)(const char *name, const char *value) = nullptr;
  const char *(*takeReport)() = nullptr;

  static SimulatorFunctions of(void *library);
  /// ": " and what the simulator says of the last failure; empty in a driver.
  std::string explanation() const;
  /// Runs one launch and takes what the simulator counted, a JSON object; empty in a driver. The counters are the
  /// process's: such launches take turns.
  int counted(const std::function<int()> &launch, std::string &counters) const;
};

} // namespace kvc::rt::gpu

#endif // KVC_GPU_LIBRARY_H

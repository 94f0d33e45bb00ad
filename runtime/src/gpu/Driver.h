//===- Driver.h - The interface of a GPU's driver ---------------*- C++ -*-===//
//
// Vendors' drivers have the same functions under names of their own, with the same binary interface (addresses on the
// device are 64 bits wide, whether their type is a pointer or a number). A library is opened with dlopen and its
// functions are found by name; nothing is linked and no header of a toolkit is used. A vendor gives the names, what it
// has beside these functions, and what its errors mean.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_GPU_DRIVER_H
#define KVC_GPU_DRIVER_H

#include "gpu/Library.h"
#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::rt::gpu {

struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;
using ModuleHandle = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;
using Graph = GraphTag *;
using GraphExec = GraphExecTag *;

/// Results that are looked at, and flags: the same numbers in all interfaces.
constexpr int success = 0, invalidValue = 1, outOfMemory = 2, invalidImage = 200, noBinaryForGpu = 209;
constexpr unsigned streamNonBlocking = 1, hostPortable = 1, hostMapped = 2;
constexpr int captureThreadLocal = 1;

/// name here, parameters. Each returns a result.
#define KVC_GPU_FUNCTIONS(F)                                                                                           \
  F(initialize, unsigned)                                                                                              \
  F(countDevices, int *)                                                                                               \
  F(allocate, void **, size_t)                                                                                         \
  F(release, void *)                                                                                                   \
  F(allocateHost, void **, size_t, unsigned)                                                                           \
  F(releaseHost, void *)                                                                                               \
  F(copyToDevice, void *, const void *, size_t, Stream)                                                                \
  F(copyToHost, void *, const void *, size_t, Stream)                                                                  \
  F(copyOnDevice, void *, const void *, size_t, Stream)                                                                \
  F(createStream, Stream *, unsigned)                                                                                  \
  F(destroyStream, Stream)                                                                                             \
  F(synchronizeStream, Stream)                                                                                         \
  F(createEvent, Event *, unsigned)                                                                                    \
  F(destroyEvent, Event)                                                                                               \
  F(recordEvent, Event, Stream)                                                                                        \
  F(synchronizeEvent, Event)                                                                                           \
  F(elapsedTime, float *, Event, Event)                                                                                \
  F(beginCapture, Stream, int)                                                                                         \
  F(endCapture, Stream, Graph *)                                                                                       \
  F(instantiateGraph, GraphExec *, Graph, unsigned long long)                                                          \
  F(launchGraph, GraphExec, Stream)                                                                                    \
  F(destroyGraph, Graph)                                                                                               \
  F(destroyGraphExec, GraphExec)                                                                                       \
  F(loadModule, ModuleHandle *, const void *)                                                                          \
  F(unloadModule, ModuleHandle)                                                                                        \
  F(findFunction, Function *, ModuleHandle, const char *)                                                              \
  F(launchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **,     \
    void **)

/// The symbols of those functions in a vendor's library.
struct FunctionNames {
#define KVC_GPU_NAME(name, ...) const char *name;
  KVC_GPU_FUNCTIONS(KVC_GPU_NAME)
#undef KVC_GPU_NAME
};

/// A vendor's interface: where it is looked for, and what messages call it.
struct Interface {
  /// "CUDA", "the CUDA driver API", "a CUDA driver", "an NVIDIA driver".
  std::string_view name, title, library, driver;
  /// What the libraries of a machine are called, and the variable that names another one.
  std::vector<std::string> files;
  const char *variable;
  /// The same of the simulator, and a chip that it has.
  std::string simulatorFile;
  const char *simulatorVariable;
  std::string_view simulatedChip;
  FunctionNames functions;
};

class Driver {
public:
  virtual ~Driver() = default;
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

#define KVC_GPU_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  KVC_GPU_FUNCTIONS(KVC_GPU_MEMBER)
#undef KVC_GPU_MEMBER

  SimulatorFunctions simulator;

  /// Opens and initialises what stands behind the name of a device, "cuda:N" or "sim:<chip>", and gives the number of
  /// the device. notFound: there is no such library, device or simulated chip; the message says what was looked for.
  Result<int> open(std::string_view name);

  /// Runs work on a stream between two events, waits for it and sets the seconds between them.
  int timed(Stream stream, const std::function<int()> &work, double &seconds) const;

  /// What the driver says of a result: its name, its text and, of a simulator, more.
  std::string reason(int result) const;
  /// A failure in words: what was done, and the reason.
  Status failure(int result, const std::string &what) const;

protected:
  /// A function that the vendor has beside those of the table: its symbol, where it is kept, and whether there is no
  /// driver without it.
  struct Symbol {
    const char *name;
    void **place;
    bool isNeeded = true;
  };

  explicit Driver(const Interface &vendor) : vendor(vendor) {}
  virtual std::vector<Symbol> ownSymbols() = 0;
  /// Name and text of a result; null where the driver knows none.
  virtual std::pair<const char *, const char *> describe(int result) const = 0;
  /// Of a result that is none of those above; `hint` may be set to what the user can do.
  virtual StatusCode statusOf(int result, const char *&hint) const = 0;

private:
  Status load(const std::vector<std::string> &libraries);

  const Interface &vendor;
};

/// Device number `ordinal` of a driver.
template <typename VendorDriver> struct DriverDevice {
  std::shared_ptr<VendorDriver> driver;
  int ordinal = 0;

  static Result<DriverDevice> find(std::string_view name) {
    DriverDevice device{std::make_shared<VendorDriver>()};
    KVC_ASSIGN_OR_RETURN(device.ordinal, device.driver->open(name));
    return device;
  }
};

} // namespace kvc::rt::gpu

#endif // KVC_GPU_DRIVER_H

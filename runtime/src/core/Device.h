//===- Device.h - What the runtime needs of a device ------------*- C++ -*-===//
//
// The one interface behind which devices stand: memory, copies, code, launches.
// `cpu` and a GPU's driver that is found with dlopen implement it. The rest of
// the runtime names no device.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CORE_DEVICE_H
#define KVC_CORE_DEVICE_H

#include "core/Profile.h"
#include "support/Result.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::rt {

enum class MemoryKind {
  device, ///< fast for kernels; the host copies
  shared, ///< read and written by the host, and by kernels and copies: the host's side of tables, results
};

enum class CodeFormat { sharedObject, cubin, hsaco };

/// Loaded code of one target: kernels by number.
class Code {
public:
  virtual ~Code() = default;
};

/// An array of 16-bit elements in memory that a kernel copies boxes of (BoxMap of the artifact): the parameters of a
/// launch are its words, and a tensor map for each of these.
struct BoxMap {
  uint32_t word = 0, swizzle = 0;
  uint64_t offset = 0;
  std::array<uint64_t, 4> strides{};
  std::array<uint32_t, 4> extents{};
  std::array<uint32_t, 5> box{};
};

struct KernelInfo {
  std::string name;
  uint64_t scratchBytes = 0;
  /// Of GPUs: threads of a block, bytes of its dynamic shared memory.
  uint32_t teamLanes = 0, stagingBytes = 0;
  std::vector<BoxMap> boxes{};
};

/// One kernel of loaded code: its arguments and the number of its work items.
struct Launch {
  size_t kernel = 0;
  std::vector<uint64_t> words;
  int64_t items = 0;
  bool operator==(const Launch &) const = default;
};

/// Sequences of launches that a device has made a graph of, and how often it has launched one.
struct GraphCounts {
  int64_t captured = 0, launched = 0;
};

/// What a launch tells that is waited for.
struct LaunchReport {
  /// What the device counted meanwhile, a JSON object; empty where it counts nothing.
  std::string counters;
  /// Of the device's own clock; negative where it has none.
  double deviceSeconds = -1;
};

/// Every method may be called from several threads at a time. Errors:
/// exhausted (no memory), unsupported, corrupt (code), internal.
class Device {
public:
  virtual ~Device() = default;

  /// More than there is work for, and so few that sizes made of it do not overflow.
  static constexpr int64_t anyProcessors = int64_t(1) << 24;

  virtual const std::string &name() const = 0;

  /// How much the device prefers code of this target: larger is better. An
  /// `unsupported` status says what the device lacks.
  virtual Result<int> rankTarget(std::string_view target) const = 0;
  /// The target to use where the user or the environment insists; empty = none.
  virtual const std::string &forcedTarget() const = 0;

  /// Processors that run work items side by side, at least 1: what a plan divides work for. A device whose results
  /// shall not depend on how many it has says `anyProcessors`.
  virtual int64_t processors() const { return anyProcessors; }

  /// 64-byte aligned; contents undefined; `bytes` may be 0. Memory that is not
  /// touched costs nothing where the machine can do that.
  virtual Result<void *> allocate(uint64_t bytes, MemoryKind kind) = 0;
  virtual void free(void *memory, uint64_t bytes, MemoryKind kind) = 0;

  /// True where host pointers are device pointers: nothing is copied then.
  virtual bool isHostMemory() const = 0;
  virtual Status copyToDevice(void *destination, const void *source, uint64_t bytes) = 0;
  virtual Status copyToHost(void *destination, const void *source, uint64_t bytes) = 0;
  virtual Status copyOnDevice(void *destination, const void *source, uint64_t bytes) = 0;
  /// Copies behind everything launched that may return before they are made: until the next synchronize both sides stay
  /// as they are.
  virtual Status enqueueCopyToDevice(void *destination, const void *source, uint64_t bytes) {
    return copyToDevice(destination, source, bytes);
  }
  virtual Status enqueueCopyToHost(void *destination, const void *source, uint64_t bytes) {
    return copyToHost(destination, source, bytes);
  }

  /// `assembly`: the text that the code was made from, where a device can
  /// use it too.
  virtual Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes,
                                             std::string_view assembly, const std::vector<KernelInfo> &kernels) = 0;

  /// Runs kernel(words, item) for items 0 .. items-1 after everything launched
  /// and copied before, and may return before they have run: what fails then
  /// shows in a later launch, copy or synchronize. With a `report` it waits for
  /// the kernel and fills the report.
  virtual Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                        LaunchReport *report = nullptr) = 0;
  /// Launches in their order, as one call of `launch` for each would do it. A device with graphs that are on keeps a
  /// graph of a sequence that came before with the same words, and launches that.
  virtual Status launchAll(const Code &code, std::span<const Launch> launches) {
    for (const Launch &each : launches) {
      KVC_RETURN_IF_ERROR(launch(code, each.kernel, each.words, each.items));
    }
    return {};
  }
  virtual bool hasGraphs() const { return false; }
  virtual GraphCounts graphCounts() const { return {}; }
  bool usesGraphs() const { return graphs.load(std::memory_order_relaxed); }
  void setGraphs(bool on) { graphs.store(on, std::memory_order_relaxed); }

  /// Waits for everything launched.
  virtual Status synchronize() = 0;

  Profile &profile() { return deviceProfile; }

private:
  Profile deviceProfile;
  std::atomic<bool> graphs = false;
};

struct DeviceOptions {
  int threads = 0;    ///< 0 = one per CPU that the process may use
  std::string target; ///< empty = the best that the machine supports
};

/// Opens "cpu", "cuda:N", "hip:N" or "sim:<chip>". notFound for other names, and where
/// there is no such device.
Result<std::shared_ptr<Device>> createDevice(std::string_view name, const DeviceOptions &options);

/// Owns memory of a device.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept { swap(other); }
  Memory &operator=(Memory &&other) noexcept {
    Memory(std::move(other)).swap(*this);
    return *this;
  }
  ~Memory() {
    if (device) {
      device->free(pointer, size, kind);
    }
  }

  static Result<Memory> allocate(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind) {
    Memory memory;
    KVC_ASSIGN_OR_RETURN(memory.pointer, device->allocate(bytes, kind));
    memory.device = std::move(device);
    memory.size = bytes;
    memory.kind = kind;
    return memory;
  }

  void *data() const { return pointer; }
  template <typename T> T *as() const { return static_cast<T *>(pointer); }
  uint64_t bytes() const { return size; }
  explicit operator bool() const { return device != nullptr; }

private:
  void swap(Memory &other) {
    std::swap(device, other.device);
    std::swap(pointer, other.pointer);
    std::swap(size, other.size);
    std::swap(kind, other.kind);
  }

  std::shared_ptr<Device> device;
  void *pointer = nullptr;
  uint64_t size = 0;
  MemoryKind kind = MemoryKind::device;
};

} // namespace kvc::rt

#endif // KVC_CORE_DEVICE_H

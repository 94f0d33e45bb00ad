//===- GpuDevice.cpp - Devices behind drivers -----------------------------===//
#include "gpu/GpuDevice.h"
#include "gpu/Graphs.h"
#include "gpu/KeptMemory.h"

#include <fmt/format.h>

namespace kvc::rt::gpu {
namespace {

class GpuCode final : public Code {
public:
  GpuCode(const std::shared_ptr<DeviceContext> &context, std::shared_ptr<GraphCounters> counters)
      : graphs(*context, std::move(counters)), context(context) {}
  ~GpuCode() override {
    if (module && context->makeCurrent() == success) {
      graphs.clear();
      (void)context->driver().unloadModule(module);
    }
  }

  struct Entry {
    Function function;
    KernelInfo info;
  };
  ModuleHandle module = nullptr;
  std::vector<Entry> kernels;
  mutable GraphCache graphs;

private:
  std::shared_ptr<DeviceContext> context;
};

class GpuDevice final : public Device {
public:
  GpuDevice(std::string_view name, std::shared_ptr<DeviceContext> context, const DeviceOptions &options)
      : deviceName(name), forced(options.target), context(std::move(context)), driver(this->context->driver()) {}

  Status start() {
    KVC_RETURN_IF_ERROR(enter());
    const int result = driver.createStream(&stream, streamNonBlocking);
    return result ? driver.failure(result, fmt::format("cannot make a stream on the device '{}'", deviceName))
                  : Status();
  }

  ~GpuDevice() override {
    if (!enter().ok()) {
      return;
    }
    for (MemoryKind kind : {MemoryKind::device, MemoryKind::shared}) {
      poolOf(kind).forEach([&](void *memory) { release(memory, kind); });
    }
    if (stream) {
      (void)driver.destroyStream(stream);
    }
  }

  const std::string &name() const override { return deviceName; }
  const std::string &forcedTarget() const override { return forced; }
  int64_t processors() const override { return context->processors(); }
  Result<int> rankTarget(std::string_view target) const override { return context->rankTarget(target, deviceName); }

  Result<void *> allocate(uint64_t bytes, MemoryKind kind) override {
    const uint64_t size = poolOf(kind).sizeOf(bytes);
    if (void *memory = poolOf(kind).take(size)) {
      return memory;
    }
    void *memory = nullptr;
    KVC_RETURN_IF_ERROR(enter());
    const int result = kind == MemoryKind::shared ? driver.allocateHost(&memory, size, hostPortable | hostMapped)
                                                  : driver.allocate(&memory, size);
    if (result) {
      return driver.failure(result, fmt::format("cannot allocate {} bytes on the device '{}'", bytes, deviceName));
    }
    return memory;
  }

  void free(void *memory, uint64_t bytes, MemoryKind kind) override {
    if (memory && !poolOf(kind).keep(poolOf(kind).sizeOf(bytes), memory) && enter().ok()) {
      release(memory, kind);
    }
  }

  bool isHostMemory() const override { return false; }
  Status copyToDevice(void *destination, const void *source, uint64_t bytes) override {
    KVC_RETURN_IF_ERROR(enqueueCopyToDevice(destination, source, bytes));
    return bytes ? synchronize() : Status();
  }
  Status copyToHost(void *destination, const void *source, uint64_t bytes) override {
    KVC_RETURN_IF_ERROR(enqueueCopyToHost(destination, source, bytes));
    return bytes ? synchronize() : Status();
  }
  Status copyOnDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(driver.copyOnDevice, "on", destination, source, bytes);
  }
  Status enqueueCopyToDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(driver.copyToDevice, "to", destination, source, bytes);
  }
  Status enqueueCopyToHost(void *destination, const void *source, uint64_t bytes) override {
    return copy(driver.copyToHost, "from", destination, source, bytes);
  }

  Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes, std::string_view assembly,
                                     const std::vector<KernelInfo> &kernels) override {
    if (format != context->format()) {
      return Status(StatusCode::unsupported, fmt::format("expects {} for the device '{}', but got other code",
                                                         context->formatName(), deviceName));
    }
    KVC_RETURN_IF_ERROR(enter());
    auto code = std::make_shared<GpuCode>(context, graphCounters);
    if (int result = context->load(&code->module, bytes, assembly)) {
      code->module = nullptr;
      return driver.failure(result, fmt::format("cannot load the kernels on the device '{}'", deviceName));
    }
    for (const KernelInfo &info : kernels) {
      Function function = nullptr;
      if (driver.findFunction(&function, code->module, info.name.c_str()) != success) {
        return Status(StatusCode::corrupt, fmt::format("expects a kernel '{}' in the code, but got none", info.name));
      }
      const std::string refusal = context->allowStaging(function, info.stagingBytes);
      if (!refusal.empty()) {
        return Status(StatusCode::unsupported, fmt::format("kernel '{}' needs {} bytes of shared memory, which the "
                                                           "device '{}' does not give: {}",
                                                           info.name, info.stagingBytes, deviceName, refusal));
      }
      const std::string noBoxes = info.boxes.empty() ? std::string() : context->allowBoxes();
      if (!noBoxes.empty()) {
        return Status(StatusCode::unsupported, fmt::format("kernel '{}' copies by tensor maps, which the device '{}' "
                                                           "does not have: {}",
                                                           info.name, deviceName, noBoxes));
      }
      code->kernels.push_back({function, info});
    }
    return std::shared_ptr<Code>(std::move(code));
  }

  Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                LaunchReport *report) override {
    const GpuCode::Entry &entry = static_cast<const GpuCode &>(code).kernels[kernel];
    KVC_RETURN_IF_ERROR(checkItems(entry.info, items));
    KVC_RETURN_IF_ERROR(enter());
    KVC_ASSIGN_OR_RETURN(std::vector<TensorMap> maps, mapsOf(entry.info, words));
    auto run = [&] { return enqueue(entry, words, maps, items, stream); };
    auto runAndWait = [&] { return driver.timed(stream, run, report->deviceSeconds); };
    const int result = report ? driver.simulator.counted(runAndWait, report->counters) : run();
    return result ? driver.failure(result,
                                   fmt::format("kernel '{}' failed on the device '{}'", entry.info.name, deviceName))
                  : Status();
  }

  Status launchAll(const Code &code, std::span<const Launch> launches) override {
    const auto &kernels = static_cast<const GpuCode &>(code);
    // One launch is not worth a graph.
    if (usesGraphs() && launches.size() > 1) {
      for (const Launch &each : launches) {
        KVC_RETURN_IF_ERROR(checkItems(kernels.kernels[each.kernel].info, each.items));
      }
      KVC_RETURN_IF_ERROR(enter());
      Status refusal;
      auto enqueueEach = [&](const Launch &each, Stream to) {
        const GpuCode::Entry &entry = kernels.kernels[each.kernel];
        Result<std::vector<TensorMap>> maps = mapsOf(entry.info, each.words);
        if (!maps.ok()) {
          refusal = maps.status();
          return invalidValue;
        }
        return enqueue(entry, each.words, *maps, each.items, to);
      };
      Result<bool> launched = kernels.graphs.launch(launches, stream, enqueueEach);
      KVC_RETURN_IF_ERROR(refusal);
      KVC_RETURN_IF_ERROR(launched.status());
      if (*launched) {
        return {};
      }
    }
    return Device::launchAll(code, launches);
  }
  bool hasGraphs() const override { return true; }
  GraphCounts graphCounts() const override { return {graphCounters->captured, graphCounters->launched}; }

  Status synchronize() override {
    KVC_RETURN_IF_ERROR(enter());
    const int result = driver.synchronizeStream(stream);
    return result ? driver.failure(result, fmt::format("the device '{}' failed", deviceName)) : Status();
  }

private:
  Status enter() const {
    const int result = context->makeCurrent();
    return result ? driver.failure(result, fmt::format("cannot use the device '{}'", deviceName)) : Status();
  }

  Status checkItems(const KernelInfo &kernel, int64_t items) const {
    const int64_t most = context->mostItems(kernel);
    return items <= most
               ? Status()
               : Status(StatusCode::unsupported, fmt::format("kernel '{}': expects at most {} work items, but got {}",
                                                             kernel.name, most, items));
  }
  /// The tensor maps of a launch. They follow from its words: a graph that is launched again for equal words has them.
  Result<std::vector<TensorMap>> mapsOf(const KernelInfo &kernel, std::span<const uint64_t> words) const {
    std::vector<TensorMap> maps(kernel.boxes.size());
    for (size_t i = 0; i < maps.size(); ++i) {
      const BoxMap &boxes = kernel.boxes[i];
      if (words.size() < 2 || boxes.word > words.size() - 2) {
        return Status(StatusCode::corrupt, fmt::format("kernel '{}': expects an address and a size at word {} for its "
                                                       "tensor map {}, but got {} words",
                                                       kernel.name, boxes.word, i, words.size()));
      }
      if (int result = context->encode(boxes, words[boxes.word], words[boxes.word + 1], maps[i])) {
        return driver.failure(result, fmt::format("cannot make tensor map {} of kernel '{}' on the device '{}'", i,
                                                  kernel.name, deviceName));
      }
    }
    return maps;
  }
  int enqueue(const GpuCode::Entry &entry, std::span<const uint64_t> words, std::vector<TensorMap> &maps, int64_t items,
              Stream to) const {
    // A launch without blocks is an error of a driver.
    if (items == 0) {
      return success;
    }
    std::vector<uint64_t> values(words.begin(), words.end());
    std::vector<void *> parameters;
    for (uint64_t &value : values) {
      parameters.push_back(&value);
    }
    for (TensorMap &map : maps) {
      parameters.push_back(map.bytes.data());
    }
    return driver.launchKernel(entry.function, static_cast<unsigned>(items), 1, 1, entry.info.teamLanes, 1, 1,
                               entry.info.stagingBytes, to, parameters.data(), nullptr);
  }

  KeptMemory &poolOf(MemoryKind kind) { return kind == MemoryKind::shared ? keptShared : keptDevice; }
  void release(void *memory, MemoryKind kind) const {
    (void)(kind == MemoryKind::shared ? driver.releaseHost(memory) : driver.release(memory));
  }

  Status copy(int (*function)(void *, const void *, size_t, Stream), const char *where, void *destination,
              const void *source, uint64_t bytes) const {
    if (bytes == 0) {
      return {};
    }
    KVC_RETURN_IF_ERROR(enter());
    const int result = function(destination, source, bytes, stream);
    return result ? driver.failure(result,
                                   fmt::format("cannot copy {} bytes {} the device '{}'", bytes, where, deviceName))
                  : Status();
  }

  const std::string deviceName, forced;
  const std::shared_ptr<DeviceContext> context;
  const Driver &driver;
  Stream stream = nullptr;
  std::shared_ptr<GraphCounters> graphCounters = std::make_shared<GraphCounters>();
  // Results and the host's side of tables; batches, tables, small buffers.
  KeptMemory keptShared{uint64_t(16) << 20, uint64_t(256) << 20};
  KeptMemory keptDevice{uint64_t(1) << 20, uint64_t(64) << 20};
};

} // namespace

Result<std::shared_ptr<Device>> createGpuDevice(std::string_view name, std::shared_ptr<DeviceContext> context,
                                                const DeviceOptions &options) {
  auto device = std::make_shared<GpuDevice>(name, std::move(context), options);
  KVC_RETURN_IF_ERROR(device->start());
  return std::shared_ptr<Device>(std::move(device));
}

} // namespace kvc::rt::gpu

//===- CpuDevice.cpp - The device "cpu" -----------------------------------===//
//
// Kernels are functions of a shared object that is loaded from memory and run
// on the worker threads of the device.
//
//===----------------------------------------------------------------------===//
#include "cpu/CpuDevice.h"
#include "cpu/Elf.h"
#include "cpu/Features.h"
#include "cpu/ThreadPool.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kvc::rt {
namespace {

constexpr uint64_t alignment = 64;
// From here on memory comes from the kernel, page by page as it is touched:
// pools are reserved at their full size.
constexpr uint64_t mapThreshold = uint64_t(1) << 22;
constexpr uint64_t hugePage = uint64_t(1) << 21;
constexpr int maxThreads = 1024;

using Kernel = void (*)(const uint64_t *slots, int64_t item, void *scratch);

uint64_t roundUp(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

class SharedObject final : public Code {
public:
  static Result<std::shared_ptr<Code>> load(std::span<const uint8_t> bytes, const std::vector<KernelInfo> &infos) {
    KVC_RETURN_IF_ERROR(cpu::verifySharedObject(bytes));
    int fd = ::memfd_create("kvc-kernels", MFD_CLOEXEC);
    if (fd < 0) {
      return Status(StatusCode::io, fmt::format("cannot create a memory file for kernels: {}", std::strerror(errno)));
    }
    auto object = std::make_shared<SharedObject>();
    object->file = fd;
    KVC_RETURN_IF_ERROR(write(fd, bytes));
    object->handle = ::dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!object->handle) {
      return Status(StatusCode::corrupt, fmt::format("cannot load the kernels: {}", ::dlerror()));
    }
    for (const KernelInfo &info : infos) {
      auto kernel = reinterpret_cast<Kernel>(::dlsym(object->handle, info.name.c_str()));
      if (!kernel) {
        return Status(StatusCode::corrupt, fmt::format("expects a kernel '{}' in the code, but got none", info.name));
      }
      object->kernels.push_back({kernel, info.scratchBytes});
    }
    return std::shared_ptr<Code>(std::move(object));
  }

  ~SharedObject() override {
    if (handle) {
      ::dlclose(handle);
    }
    if (file >= 0) {
      ::close(file);
    }
  }

  struct Entry {
    Kernel kernel;
    uint64_t scratchBytes;
  };
  std::vector<Entry> kernels;

private:
  static Status write(int fd, std::span<const uint8_t> bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0) {
        return Status(StatusCode::io, fmt::format("cannot write kernels to memory: {}", std::strerror(errno)));
      }
      done += size_t(n);
    }
    return {};
  }

  void *handle = nullptr;
  // Open as long as the code is loaded: dlopen takes a path that it knows for the object that it knows.
  int file = -1;
};

class CpuDevice final : public Device {
public:
  CpuDevice(cpu::Level level, int threads, std::string target)
      : level(level), pool(threads), forced(std::move(target)), scratch(size_t(threads)) {}

  ~CpuDevice() override {
    for (Scratch &worker : scratch) {
      this->free(worker.memory, worker.bytes, MemoryKind::device);
    }
  }

  const std::string &name() const override { return deviceName; }
  Result<int> rankTarget(std::string_view target) const override { return cpu::rank(level, target); }
  const std::string &forcedTarget() const override { return forced; }

  Result<void *> allocate(uint64_t bytes, MemoryKind) override {
    if (bytes > uint64_t(PTRDIFF_MAX) / 2) {
      return outOfMemory(bytes);
    }
    if (bytes < mapThreshold) {
      void *memory = std::aligned_alloc(alignment, roundUp(std::max<uint64_t>(bytes, 1), alignment));
      return memory ? Result<void *>(memory) : outOfMemory(bytes);
    }
    void *memory = ::mmap(nullptr, roundUp(bytes, hugePage), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return outOfMemory(bytes);
    }
    // Only advice: without huge pages everything works.
    ::madvise(memory, roundUp(bytes, hugePage), MADV_HUGEPAGE);
    return memory;
  }

  void free(void *memory, uint64_t bytes, MemoryKind) override {
    if (!memory) {
      return;
    }
    if (bytes < mapThreshold) {
      std::free(memory);
    } else {
      ::munmap(memory, roundUp(bytes, hugePage));
    }
  }

  bool isHostMemory() const override { return true; }
  Status copyToDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status copyToHost(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status copyOnDevice(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }

  Result<std::shared_ptr<Code>> load(CodeFormat format, std::span<const uint8_t> bytes, std::string_view,
                                     const std::vector<KernelInfo> &kernels) override {
    if (format != CodeFormat::sharedObject) {
      return Status(StatusCode::unsupported, "expects a shared object for the device 'cpu', but got code of a GPU");
    }
    return SharedObject::load(bytes, kernels);
  }

  Status launch(const Code &code, size_t kernel, std::span<const uint64_t> words, int64_t items,
                LaunchReport *) override {
    const SharedObject::Entry &entry = static_cast<const SharedObject &>(code).kernels[kernel];
    // One job at a time: callers on several threads take turns.
    std::lock_guard lock(launching);
    KVC_RETURN_IF_ERROR(growScratch(entry.scratchBytes, items));
    struct Job {
      Kernel kernel;
      const uint64_t *words;
      const Scratch *scratch;
    } job{entry.kernel, words.data(), scratch.data()};
    pool.run(
        [](void *context, int64_t item, int worker) {
          const Job &job = *static_cast<const Job *>(context);
          job.kernel(job.words, item, job.scratch[worker].memory);
        },
        &job, items);
    return {};
  }

  Status synchronize() override { return {}; }

private:
  struct Scratch {
    void *memory = nullptr;
    uint64_t bytes = 0;
  };

  static Status outOfMemory(uint64_t bytes) {
    return Status(StatusCode::exhausted, fmt::format("cannot allocate {} bytes on the device 'cpu'", bytes));
  }

  static Status copy(void *destination, const void *source, uint64_t bytes) {
    if (bytes) {
      std::memcpy(destination, source, bytes);
    }
    return {};
  }

  Status growScratch(uint64_t bytes, int64_t items) {
    if (bytes == 0) {
      return {};
    }
    int64_t used = std::min<int64_t>(items, int64_t(scratch.size()));
    // The item that a worker gets is not known, so every worker that may run
    // one needs its memory.
    for (Scratch &worker : std::span(scratch).subspan(0, used > 1 ? scratch.size() : size_t(used))) {
      if (worker.bytes < bytes) {
        KVC_ASSIGN_OR_RETURN(void *memory, allocate(bytes, MemoryKind::device));
        this->free(worker.memory, worker.bytes, MemoryKind::device);
        worker = {memory, bytes};
      }
    }
    return {};
  }

  std::string deviceName = "cpu";
  cpu::Level level;
  cpu::ThreadPool pool;
  std::string forced;
  std::mutex launching;
  std::vector<Scratch> scratch;
};

Result<int> defaultThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    return Status(StatusCode::io,
                  fmt::format("cannot read the CPU affinity: {}; give the number of threads", std::strerror(errno)));
  }
  return CPU_COUNT(&set);
}

} // namespace

Result<std::shared_ptr<Device>> createCpuDevice(const DeviceOptions &options) {
  if (options.threads < 0 || options.threads > maxThreads) {
    return Status(StatusCode::invalidArgument,
                  fmt::format("expects 0 to {} threads, but got {}", maxThreads, options.threads));
  }
  KVC_ASSIGN_OR_RETURN(cpu::Level level, cpu::detect());
  int threads = options.threads;
  if (threads == 0) {
    KVC_ASSIGN_OR_RETURN(threads, defaultThreads());
  }
  return std::shared_ptr<Device>(std::make_shared<CpuDevice>(level, threads, options.target));
}

} // namespace kvc::rt

//===- CudaDevice.cpp - Devices behind the CUDA driver API ----------------===//
#include "cuda/CudaDevice.h"
#include "cuda/CudaDriver.h"
#include "gpu/GpuDevice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <elf.h>
#include <limits>

namespace kvc::rt {
namespace {

/// Shared memory of a block that needs no asking.
constexpr uint32_t plainSharedBytes = 48 << 10;

/// 80 and whether code is for this chip alone, of "sm_80" or "sm_90a".
struct Chip {
  int capability = 0;
  bool isExact = false;
};
Result<Chip> parseChip(std::string_view target) {
  Chip chip;
  constexpr std::string_view prefix = "sm_";
  auto bad = [&] {
    return Status(StatusCode::unsupported, fmt::format("expects code of an NVIDIA GPU, but got '{}'", target));
  };
  if (target.substr(0, prefix.size()) != prefix) {
    return bad();
  }
  std::string_view number = target.substr(prefix.size());
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), chip.capability);
  std::string_view rest = number.substr(size_t(end - number.data()));
  if (error != std::errc() || (!rest.empty() && rest != "a")) {
    return bad();
  }
  chip.isExact = !rest.empty();
  return chip;
}

/// True for what a driver may be given: it is not told where an image ends. A cubin with all of its sections, or text
/// with its end.
bool isWholeImage(std::span<const uint8_t> bytes) {
  return gpu::isWholeElf(bytes) || (!bytes.empty() && bytes[0] != ELFMAG0 && bytes.back() == 0);
}

/// The primary context of a device, which belongs to the threads that it is current in.
class CudaContext final : public gpu::DeviceContext {
public:
  explicit CudaContext(std::shared_ptr<cuda::Driver> driver) : cuda(std::move(driver)) {}
  ~CudaContext() override {
    if (handle) {
      (void)cuda->cuDevicePrimaryCtxRelease_v2(number);
    }
  }

  Status open(int ordinal, std::string_view name) {
    if (int result = cuda->cuDeviceGet(&number, ordinal)) {
      return cuda->failure(result, fmt::format("cannot open the device '{}'", name));
    }
    int major = 0, minor = 0;
    for (auto [attribute, value] : {std::pair{cuda::attributeComputeMajor, &major},
                                    {cuda::attributeComputeMinor, &minor},
                                    {cuda::attributeMultiprocessors, &multiprocessors}}) {
      if (int result = cuda->cuDeviceGetAttribute(value, attribute, number)) {
        return cuda->failure(result, "cannot ask for the compute capability and the number of multiprocessors");
      }
    }
    capability = major * 10 + minor;
    const int result = cuda->cuDevicePrimaryCtxRetain(&handle, number);
    return result ? cuda->failure(result, fmt::format("cannot make a context on the device '{}'", name)) : Status();
  }

  const gpu::Driver &driver() const override { return *cuda; }
  int makeCurrent() const override { return cuda->cuCtxSetCurrent(handle); }

  Result<int> rankTarget(std::string_view target, std::string_view) const override {
    KVC_ASSIGN_OR_RETURN(Chip chip, parseChip(target));
    if (chip.capability > capability || (chip.isExact && chip.capability != capability)) {
      return Status(StatusCode::unsupported,
                    fmt::format("expects code that compute capability {}.{} can run, but got '{}'", capability / 10,
                                capability % 10, target));
    }
    return 2 * chip.capability + chip.isExact;
  }

  CodeFormat format() const override { return CodeFormat::cubin; }
  std::string_view formatName() const override { return "a cubin"; }

  int load(gpu::ModuleHandle *module, std::span<const uint8_t> bytes, std::string_view assembly) const override {
    const int result = isWholeImage(bytes) ? cuda->loadModule(module, bytes.data()) : gpu::invalidImage;
    if ((result == gpu::noBinaryForGpu || result == gpu::invalidImage) && !assembly.empty()) {
      // A driver compiles PTX for chips that the cubin is not for. It wants an end of the text.
      return cuda->loadModule(module, std::string(assembly).c_str());
    }
    return result;
  }

  std::string allowStaging(gpu::Function function, uint32_t bytes) const override {
    const int result = bytes <= plainSharedBytes ? gpu::success
                                                 : cuda->cuFuncSetAttribute(function, cuda::functionMaxDynamicShared,
                                                                            static_cast<int>(bytes));
    return result ? cuda->reason(result) : std::string();
  }

  std::string allowBoxes() const override {
    return cuda->cuTensorMapEncodeTiled ? std::string()
                                        : "the driver has no function 'cuTensorMapEncodeTiled'; a newer driver has it";
  }

  int encode(const BoxMap &boxes, uint64_t address, uint64_t bytes, gpu::TensorMap &map) const override {
    std::array<uint64_t, 5> extents;
    std::copy(boxes.extents.begin(), boxes.extents.end(), extents.begin());
    // An empty array is none for a driver; nobody copies boxes of it.
    extents.back() = std::max<uint64_t>(1, bytes / boxes.strides.back());
    constexpr std::array<unsigned, 5> steps{1, 1, 1, 1, 1};
    const int swizzle = boxes.swizzle == 128  ? cuda::mapSwizzle128
                        : boxes.swizzle == 64 ? cuda::mapSwizzle64
                                              : cuda::mapSwizzle32;
    return cuda->cuTensorMapEncodeTiled(map.bytes.data(), cuda::mapUint16, extents.size(),
                                        reinterpret_cast<void *>(address + boxes.offset), extents.data(),
                                        boxes.strides.data(), boxes.box.data(), steps.data(), cuda::mapPlain, swizzle,
                                        cuda::mapLines256, cuda::mapZeros);
  }

  int64_t processors() const override { return std::max(1, multiprocessors); }
  int64_t mostItems(const KernelInfo &) const override { return std::numeric_limits<int32_t>::max(); }

private:
  std::shared_ptr<cuda::Driver> cuda;
  cuda::DeviceNumber number = 0;
  cuda::Context handle = nullptr;
  int capability = 0, multiprocessors = 0;
};

} // namespace

Result<std::shared_ptr<Device>> createCudaDevice(std::string_view name, const DeviceOptions &options) {
  KVC_ASSIGN_OR_RETURN(auto found, gpu::DriverDevice<cuda::Driver>::find(name));
  auto context = std::make_shared<CudaContext>(std::move(found.driver));
  KVC_RETURN_IF_ERROR(context->open(found.ordinal, name));
  return gpu::createGpuDevice(name, std::move(context), options);
}

} // namespace kvc::rt

//===- Ceilings.cpp - What a GPU can do at most ---------------------------===//
#include "Ceilings.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>

using namespace kvc;
using namespace kvc::device;

static constexpr int repetitions = 9;

namespace {
class Buffer {
public:
  Buffer(const DriverContext &gpu, size_t bytes) : gpu(gpu) {
    gpu.check(gpu->allocate(&address, bytes), "cannot allocate a buffer");
  }
  ~Buffer() { (void)gpu->release(address); }
  Buffer(const Buffer &) = delete;

  void *address = nullptr;

private:
  const DriverContext &gpu;
};

/// The part of cuBLAS that is used, by the numbers of its interface.
struct Blas {
  static constexpr int half = 2, single = 68, usual = -1;
  int (*create)(void **) = nullptr;
  int (*destroy)(void *) = nullptr;
  int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
              const void *, void *, int, int, int, int) = nullptr;
  std::string name;
};
} // namespace

static double medianSeconds(const DriverContext &gpu, const char *what, const std::function<int()> &work) {
  std::vector<double> times;
  // The first run warms up.
  for (int i = 0; i <= repetitions; ++i) {
    double seconds = 0;
    gpu.check(gpu->timed(nullptr, work, seconds), what);
    if (i) {
      times.push_back(seconds);
    }
  }
  return median(std::move(times));
}

double device::copyBandwidth(const DriverContext &gpu, size_t bytes) {
  const Buffer from(gpu, bytes), to(gpu, bytes);
  const double seconds = medianSeconds(gpu, "cannot copy on the device",
                                       [&] { return gpu->copyOnDevice(to.address, from.address, bytes, nullptr); });
  return 2.0 * double(bytes) / seconds;
}

static bool loadBlas(Blas &blas, std::string &tried) {
  for (const char *folder : {"", "/usr/local/cuda/lib64/"}) {
    for (const char *file : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}) {
      const std::string name = std::string(folder) + file;
      tried += (tried.empty() ? "" : ", ") + name;
      void *library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) {
        continue;
      }
      auto load = [&](auto &function, const char *symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
        return function != nullptr;
      };
      blas.name = name;
      return load(blas.create, "cublasCreate_v2") && load(blas.destroy, "cublasDestroy_v2") &&
             load(blas.gemm, "cublasGemmEx");
    }
  }
  return false;
}

Json device::gemmThroughput(const DriverContext &gpu, int size) {
  if (gpu.isSimulated()) {
    return {{"missing", "no cuBLAS for a simulated device"}};
  }
  Blas blas;
  std::string tried;
  if (!loadBlas(blas, tried)) {
    return {{"missing", "no cuBLAS found: " + tried}};
  }
  const size_t count = size_t(size) * size_t(size);
  // Powers of two with signs: sums of products are exact in f32.
  std::vector<uint16_t> numbers(count);
  uint32_t state = 1;
  for (uint16_t &number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = uint16_t((state >> 31 << 15) | (state >> 30 & 1 ? 0x3c00 : 0x3800));
  }
  auto valueOf = [](uint16_t bits) { return (bits & 0x8000 ? -1.0 : 1.0) * ((bits & 0x7fff) == 0x3c00 ? 1.0 : 0.5); };
  const Buffer a(gpu, 2 * count), b(gpu, 2 * count), c(gpu, 2 * count);
  for (const Buffer *matrix : {&a, &b}) {
    gpu.check(gpu->copyToDevice(matrix->address, numbers.data(), 2 * count, nullptr), "cannot fill a matrix");
  }
  gpu.check(gpu->synchronizeStream(nullptr), "cannot fill the matrices");
  void *handle = nullptr;
  if (int error = blas.create(&handle)) {
    throw Failure(fmt::format("cuBLAS ({}) does not start: error {}", blas.name, error));
  }
  const float one = 1, zero = 0;
  int error = 0;
  const double seconds = medianSeconds(gpu, "cannot run a product of matrices", [&] {
    error = blas.gemm(handle, 0, 0, size, size, size, &one, a.address, Blas::half, size, b.address, Blas::half, size,
                      &zero, c.address, Blas::half, size, Blas::single, Blas::usual);
    return 0;
  });
  (void)blas.destroy(handle);
  if (error) {
    throw Failure(fmt::format("cuBLAS ({}) does not multiply: error {}", blas.name, error));
  }
  double want = 0;
  for (size_t k = 0; k < size_t(size); ++k) {
    want += valueOf(numbers[k * size_t(size)]) * valueOf(numbers[k]);
  }
  uint16_t bits = 0;
  gpu.check(gpu->copyToHost(&bits, c.address, sizeof(bits), nullptr), "cannot read the product");
  gpu.check(gpu->synchronizeStream(nullptr), "cannot read the product");
  _Float16 got;
  std::memcpy(&got, &bits, sizeof(got));
  if (std::abs(double(got) - want) > std::abs(want) / 1024) {
    throw Failure(fmt::format("cuBLAS ({}): expects {} as the first element of a product, but got {}", blas.name, want,
                              double(got)));
  }
  return {{"library", blas.name},
          {"size", size},
          {"seconds", seconds},
          {"tflops", 2.0 * size * double(size) * size / seconds / 1e12}};
}

//===- KernelTest.cpp - Kernels that nvcc compiled ------------------------===//
#include "PtxRunner.h"
#include "common/Floats.h"
#include "ptx/TensorMap.h"

#include <cmath>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <random>

using namespace kvc::sim;
using namespace kvc::sim::test;
using testing::HasSubstr;

namespace {

/// A module, buffers and a launch.
class Kernel {
public:
  Kernel(const std::string &file, const std::string &name, const std::string &target, const std::string &from = "",
         const std::string &to = "") {
    std::ifstream in(std::string(KVCSIM_KERNELS) + "/" + file);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!from.empty()) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      for (size_t i = at; i != std::string::npos; i = text.find(from, i + to.size())) {
        text.replace(i, from.size(), to);
      }
    }
    module = std::make_unique<ptx::LoadedModule>(memory, file, text, ptx::parseTarget(target));
    program = &module->kernel(name);
  }

  template <typename T> uint64_t buffer(const std::vector<T> &values) {
    const uint64_t address = memory.allocate(values.size() * sizeof(T), "a buffer");
    std::memcpy(memory.at(address, values.size() * sizeof(T), "test"), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T> std::vector<T> read(uint64_t address, size_t count) {
    const auto *at = reinterpret_cast<const T *>(memory.at(address, count * sizeof(T), "test"));
    return {at, at + count};
  }
  template <typename T> void argument(const T &value) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
    const auto &parameter = program->parameters[next++];
    ASSERT_EQ(parameter.bytes, sizeof(T));
    config.parameters.resize(program->parameterBytes);
    std::copy(bytes, bytes + sizeof(T), config.parameters.begin() + parameter.offset);
  }
  ptx::LaunchResult launch(ptx::Dim3 grid, ptx::Dim3 block, uint32_t shared = 0) {
    config.grid = grid;
    config.block = block;
    config.dynamicShared = shared;
    return runKernel(*program, config, memory, options);
  }

  GlobalMemory memory;
  std::unique_ptr<ptx::LoadedModule> module;
  const ptx::Program *program = nullptr;
  ptx::LaunchConfig config;
  ptx::LaunchOptions options;
  size_t next = 0;
};

class KernelTest : public testing::Test {
protected:
  void SetUp() override {
    if (!std::filesystem::exists(std::string(KVCSIM_KERNELS) + "/basics.ptx")) {
      GTEST_SKIP() << "no nvcc";
    }
  }
};

std::vector<float> normals(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(n);
  for (float &v : values) {
    v = distribution(random);
  }
  return values;
}
std::vector<_Float16> narrow(const std::vector<float> &values) { return {values.begin(), values.end()}; }

TEST_F(KernelTest, Softmax) {
  const int rows = 5, columns = 301;
  Kernel kernel("basics.ptx", "softmax", "sm_80");
  const auto in = normals(rows * columns, 1);
  const uint64_t out = kernel.buffer(std::vector<float>(in.size()));
  kernel.argument(kernel.buffer(in));
  kernel.argument(out);
  kernel.argument(columns);
  kernel.launch({rows, 1, 1}, {96, 1, 1});
  const auto result = kernel.read<float>(out, in.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) {
      sum += std::exp(double(in[r * columns + i]));
    }
    for (int i = 0; i < columns; ++i) {
      ASSERT_NEAR(result[r * columns + i], std::exp(double(in[r * columns + i])) / sum, 1e-6);
    }
  }
}

TEST_F(KernelTest, MathematicalFunctions) {
  const int n = 1000;
  Kernel kernel("basics.ptx", "mathematics", "sm_80");
  auto in = normals(n, 2);
  in[3] = 100000.0f;
  in[4] = -12345678.0f;
  const uint64_t out = kernel.buffer(std::vector<double>(6 * n));
  kernel.argument(kernel.buffer(in));
  kernel.argument(out);
  kernel.argument(n);
  kernel.launch({8, 1, 1}, {128, 1, 1});
  const auto result = kernel.read<double>(out, 6 * n);
  for (int i = 0; i < n; ++i) {
    const double x = in[i];
    ASSERT_NEAR(result[6 * i], std::sin(x), 2e-6) << x;
    ASSERT_NEAR(result[6 * i + 1], std::log(std::fabs(x) + 1), 2e-6 * (1 + std::log(std::fabs(x) + 1)));
    ASSERT_NEAR(result[6 * i + 2], std::pow(std::fabs(x), 1.5), 1e-12 * (1 + std::pow(std::fabs(x), 1.5)));
    if (std::fabs(x) < 1) {
      ASSERT_NEAR(result[6 * i + 3], std::exp(x), 1e-9);
    }
    ASSERT_EQ(result[6 * i + 4], double((long long)(in[i] * 1e6f) / 1237));
    const double last = std::sqrt(std::fabs(x)) + 1 / std::sqrt(std::fabs(x) + 1) + std::erf(x);
    ASSERT_NEAR(result[6 * i + 5], last, 1e-5 * (1 + std::fabs(last)));
  }
}

TEST_F(KernelTest, Histogram) {
  const int n = 10000;
  Kernel kernel("basics.ptx", "histogram", "sm_80");
  std::mt19937 random(3);
  std::vector<unsigned> in(n), expected(64);
  for (unsigned &v : in) {
    v = unsigned(random());
    ++expected[v % 64];
  }
  const uint64_t counts = kernel.buffer(std::vector<unsigned>(64));
  kernel.argument(kernel.buffer(in));
  kernel.argument(counts);
  kernel.argument(n);
  kernel.launch({6, 1, 1}, {128, 1, 1});
  EXPECT_EQ(kernel.read<unsigned>(counts, 64), expected);
}

TEST_F(KernelTest, CooperativeGroups) {
  const int n = 256;
  Kernel kernel("basics.ptx", "groups", "sm_80");
  std::vector<int> in(n);
  for (int i = 0; i < n; ++i) {
    in[i] = i * i;
  }
  const uint64_t out = kernel.buffer(std::vector<int>(n / 16));
  kernel.argument(kernel.buffer(in));
  kernel.argument(out);
  kernel.argument(n);
  kernel.launch({2, 1, 1}, {128, 1, 1});
  const auto result = kernel.read<int>(out, n / 16);
  for (int g = 0; g < n / 16; ++g) {
    int sum = g % 8;
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      sum += in[i];
    }
    ASSERT_EQ(result[g], sum);
  }
}

TEST_F(KernelTest, HalfArithmetic) {
  const int n = 500;
  Kernel kernel("basics.ptx", "halves", "sm_80");
  const auto a = narrow(normals(2 * n, 4));
  std::vector<uint16_t> b;
  for (float v : normals(2 * n, 5)) {
    b.push_back(floatToBf16(v));
  }
  const uint64_t c = kernel.buffer(std::vector<_Float16>(2 * n)), d = kernel.buffer(std::vector<uint16_t>(2 * n));
  kernel.argument(kernel.buffer(a));
  kernel.argument(kernel.buffer(b));
  kernel.argument(c);
  kernel.argument(d);
  kernel.argument(n);
  kernel.launch({4, 1, 1}, {128, 1, 1});
  const auto first = kernel.read<_Float16>(c, 2 * n);
  const auto second = kernel.read<uint16_t>(d, 2 * n);
  for (int i = 0; i < 2 * n; ++i) {
    const double x = double(a[i]), y = bf16ToFloat(b[i]);
    ASSERT_EQ(double(first[i]), double(_Float16(x * x + std::fmax(x, 0.5))));
    ASSERT_EQ(second[i], floatToBf16(float(2.5 * y)));
  }
}

/// The matrix product of f16 matrices in double: C[m][n] = sum A[m][k] B(k, n).
template <typename F>
void expectProduct(const std::vector<float> &c, const std::vector<_Float16> &a, int m, int n, int k, F b) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int x = 0; x < k; ++x) {
        sum += double(a[i * k + x]) * double(b(x, j));
      }
      ASSERT_NEAR(c[i * n + j], sum, 1e-3) << i << ", " << j;
    }
  }
}

struct Ampere {
  explicit Ampere(const std::string &from = "", const std::string &to = "")
      : kernel("ampere.ptx", "ampere", "sm_80", from, to), a(narrow(normals(64 * K, 6))), b(narrow(normals(64 * K, 7))),
        c(kernel.buffer(std::vector<float>(64 * 64))) {
    kernel.argument(kernel.buffer(a));
    kernel.argument(kernel.buffer(b));
    kernel.argument(c);
    kernel.argument(K);
  }
  void run() { kernel.launch({1, 1, 1}, {128, 1, 1}); }
  static constexpr int K = 160;
  Kernel kernel;
  std::vector<_Float16> a, b;
  uint64_t c;
};

TEST_F(KernelTest, AmpereProduct) {
  for (uint64_t seed : {0, 1, 2}) {
    Ampere ampere;
    ampere.kernel.options.seed = seed;
    ampere.run();
    expectProduct(ampere.kernel.read<float>(ampere.c, 64 * 64), ampere.a, 64, 64, Ampere::K,
                  [&](int k, int n) { return ampere.b[k * 64 + n]; });
  }
}

TEST_F(KernelTest, AmpereMutantsAreFound) {
  const std::pair<const char *, const char *> mutants[] = {
      {"cp.async.wait_group 1;", "cp.async.wait_group 2;"},
      {"cp.async.wait_group 0;", ";"},
      {"bar.sync \t0;", ";"},
      {"cp.async.commit_group;", ";"},
  };
  for (auto [from, to] : mutants) {
    EXPECT_NE(faultOf([&, from = from, to = to] { Ampere(from, to).run(); }), "none") << from;
  }
}

struct Hopper {
  explicit Hopper(const std::string &from = "", const std::string &to = "")
      : kernel("hopper.ptx", "hopper", "sm_90a", from, to), a(narrow(normals(M * K, 8))), b(narrow(normals(N * K, 9))),
        c(kernel.buffer(std::vector<float>(M * N))) {
    kernel.argument(map(kernel.buffer(a), M));
    kernel.argument(map(kernel.buffer(b), N));
    kernel.argument(c);
    kernel.argument(K / 64);
    kernel.argument(N);
  }
  static ptx::TensorMap map(uint64_t address, uint64_t rows) {
    void *library = dlopen(KVCSIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    auto *encode =
        reinterpret_cast<int (*)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *,
                                 const unsigned *, int, int, int, int)>(dlsym(library, "cuTensorMapEncodeTiled"));
    alignas(64) ptx::TensorMap map;
    const uint64_t dimensions[] = {K, rows}, strides[] = {K * 2};
    const unsigned box[] = {64, 64}, steps[] = {1, 1};
    EXPECT_EQ(encode(&map, 6, 2, reinterpret_cast<void *>(address), dimensions, strides, box, steps, 0, 3, 0, 0), 0);
    return map;
  }
  void run() { kernel.launch({N / 64, M / 64, 1}, {160, 1, 1}, 3 * 16384 + 48); }
  static constexpr int M = 128, N = 64, K = 448;
  Kernel kernel;
  std::vector<_Float16> a, b;
  uint64_t c;
};

TEST_F(KernelTest, HopperProduct) {
  for (uint64_t seed : {0, 1, 2}) {
    Hopper hopper;
    hopper.kernel.options.seed = seed;
    hopper.run();
    expectProduct(hopper.kernel.read<float>(hopper.c, Hopper::M * Hopper::N), hopper.a, Hopper::M, Hopper::N, Hopper::K,
                  [&](int k, int n) { return hopper.b[n * Hopper::K + k]; });
  }
}

TEST_F(KernelTest, HopperMutantsAreFound) {
  const std::pair<const char *, const char *> mutants[] = {
      // The wait for the data, the wait for the products, the release of the stage, the initialisation's barrier.
      {"mbarrier.try_wait.parity.shared::cta.b64 p,", "setp.eq.u32 p, 0, 0;//"},
      {"wgmma.wait_group.sync.aligned 0;", ";"},
      {"wgmma.commit_group.sync.aligned;", ";"},
      {"mbarrier.arrive.shared::cta.b64 _,", "//"},
      {"bar.sync \t0;", ";"},
      {"mbarrier.arrive.expect_tx.shared::cta.b64 _,", "//"},
  };
  for (auto [from, to] : mutants) {
    EXPECT_NE(faultOf([&, from = from, to = to] { Hopper(from, to).run(); }), "none") << from;
  }
}

} // namespace

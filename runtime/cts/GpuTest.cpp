//===- GpuTest.cpp - Conformance: what goes wrong on a GPU ----------------===//
//
// Kernels that fail, alone and in graphs, code that a driver refuses, memory that is not there, two devices at a time.
// Whatever happens, the CPU goes on.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

#include <array>
#include <dlfcn.h>
#include <thread>

namespace kvc::cts {
namespace {

std::vector<std::string> gpus() {
  std::vector<std::string> names;
  for (const std::string &name : devices()) {
    if (name != "cpu") {
      names.push_back(name);
    }
  }
  return names;
}

/// The test module with the PTX of its kernels changed, and nothing but it.
std::vector<uint8_t> withPtx(const std::string &before, const std::string &after) {
  fb::ModuleT module = test::testModule();
  fb::TargetT &target = *module.targets[1];
  const size_t at = target.assembly.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  target.assembly.replace(at, before.size(), after);
  target.code.assign(100, 1); // no machine code, so that a driver needs the text
  std::swap(module.targets[0], module.targets[1]);
  module.targets.resize(1);
  return test::sealed(module);
}

/// The test module with nothing but the code for this device, changed.
template <typename Change> std::vector<uint8_t> withTarget(const std::string &device, Change change) {
  fb::ModuleT module = test::testModule();
  size_t own = 1;
  for (size_t i = 0; i < module.targets.size(); ++i) {
    own = device == "sim:" + module.targets[i]->name ? i : own;
  }
  std::swap(module.targets[0], module.targets[own]);
  change(*module.targets[0], module);
  module.targets.resize(1);
  return test::sealed(module);
}

std::vector<float> call(const Module &module, const char *function, std::vector<float> x, float factor) {
  std::vector<int64_t> dims{int64_t(x.size())};
  return module.call(function, {Argument::tensor(x.data(), dims), Argument::real(factor)})[0].copy<float>();
}
std::vector<float> scale(const Module &module, std::vector<float> x, float factor) {
  return call(module, "scale", std::move(x), factor);
}

void expectCpuWorks() {
  Device cpu("cpu", 1);
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  Module module = Module::load(cpu, bytes.data(), bytes.size());
  EXPECT_THAT(scale(module, {1, 2}, 3), ElementsAre(3, 6));
}

/// Sets a variable for the life of the object.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }

private:
  const char *name;
};

class Gpu : public ::testing::TestWithParam<std::string> {
protected:
  Device open() const { return Device(GetParam().c_str(), 1); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Gpu);
INSTANTIATE_TEST_SUITE_P(Devices, Gpu, ::testing::ValuesIn(gpus()), [](const auto &info) {
  std::string name = info.param;
  for (char &letter : name) {
    letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  }
  return name;
});

/// A kernel has failed on `device`: every later call fails, and nothing hangs or crashes; the CPU goes on.
void expectLost(const Module &module, const std::string &device) {
  expectError(KVC_INTERNAL, device, [&] { scale(module, {1, 2}, 3); });
  expectError(KVC_INTERNAL, device,
              [&] { module.call("scalars", {Argument::integer(1), Argument::integer(2), Argument::real(1)}); });
  expectError(KVC_INTERNAL, device, [&] { module.cache(0, {0, 1, 16, 0, 0}); });
  expectCpuWorks();
}

/// Once everything of a context that a kernel has failed in is released, the device can be opened again. HIP has no
/// contexts: there it is up to the program to reset the device, for all that use it.
void expectUsable(const std::string &name) {
  if (!takesPtx(name)) {
    void *library = ::dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const std::string which = name.substr(name.find(':') + 1);
    auto chip = reinterpret_cast<int (*)(const char *)>(::dlsym(library, "kvcsim_device"));
    const int ordinal = chip ? chip(which.c_str()) : std::atoi(which.c_str());
    ASSERT_EQ(reinterpret_cast<int (*)(int)>(::dlsym(library, "hipSetDevice"))(ordinal), 0);
    ASSERT_EQ(reinterpret_cast<int (*)()>(::dlsym(library, "hipDeviceReset"))(), 0);
  }
  Device device(name.c_str(), 1);
  const std::vector<uint8_t> bytes = test::sealed(test::testModule());
  EXPECT_THAT(scale(Module::load(device, bytes.data(), bytes.size()), {1, 2}, 3), ElementsAre(3, 6));
}

TEST_P(Gpu, AKernelThatFailsIsAnErrorAndSoAreCallsAfterIt) {
  {
    Device device = open();
    const std::vector<uint8_t> bytes = test::sealed(test::testModule());
    Module module = Module::load(device, bytes.data(), bytes.size());
    EXPECT_THAT(call(module, "guarded", {1, 2}, 3), ElementsAre(3, 6));
    expectError(KVC_INTERNAL, "device '" + GetParam() + "'", [&] { call(module, "guarded", {-1, 2}, 3); });
    expectLost(module, GetParam());
  }
  expectUsable(GetParam());
}

TEST_P(Gpu, AKernelThatFailsInAGraphIsAnErrorAndSoAreCallsAfterIt) {
  {
    Device device = open();
    device.setGraphs(true);
    const std::vector<uint8_t> bytes = test::sealed(test::testModule());
    Module module = Module::load(device, bytes.data(), bytes.size());
    // The same launches: what is captured does not fail, and what is replayed reads another number.
    for (int i = 0; i < 4; ++i) {
      EXPECT_THAT(call(module, "guarded", {1, 2}, 3), ElementsAre(3, 6));
    }
    const runtime::Device::GraphCounts before = device.graphCounts();
    EXPECT_EQ(before.captured, 1);
    expectError(KVC_INTERNAL, "device '" + GetParam() + "'", [&] { call(module, "guarded", {-1, 2}, 3); });
    EXPECT_EQ(device.graphCounts().launched, before.launched + 1);
    expectLost(module, GetParam());
    // Neither is a graph launched that has been captured, nor another captured.
    for (int i = 0; i < 3; ++i) {
      expectError(KVC_INTERNAL, GetParam(), [&] { call(module, "guarded", {1, 2}, 3); });
      expectError(KVC_INTERNAL, GetParam(), [&] { call(module, "guarded", {1, 2, 3}, 3); });
    }
  }
  expectUsable(GetParam());
}

TEST_P(Gpu, AKernelThatFailsLosesNoOtherDevice) {
  Device device = open();
  const std::vector<uint8_t> bytes = test::sealed(test::testModule());
  const Module module = Module::load(device, bytes.data(), bytes.size());
  for (const std::string &name : gpus()) {
    if (name == GetParam()) {
      continue;
    }
    {
      Device other(name.c_str(), 1);
      Module lost = Module::load(other, bytes.data(), bytes.size());
      expectError(KVC_INTERNAL, name, [&] { call(lost, "guarded", {-1, 2}, 3); });
      EXPECT_THAT(scale(module, {1, 2}, 3), ElementsAre(3, 6));
      expectLost(lost, name);
    }
    expectUsable(name);
    EXPECT_THAT(scale(module, {1, 2}, 3), ElementsAre(3, 6));
  }
}

TEST_P(Gpu, CodeOfALaterVersionIsRefused) {
  if (!takesPtx(GetParam())) {
    GTEST_SKIP() << "changes the text of kernels, which this device does not take";
  }
  const std::vector<uint8_t> bytes = withPtx(".version", ".version 99.0 //");
  // The driver is too old for it.
  expectError(KVC_UNSUPPORTED, "a newer driver reads it", [&] { Module::load(open(), bytes.data(), bytes.size()); });
  expectCpuWorks();
}

TEST_P(Gpu, ALaunchThatIsRefusedLeavesTheDeviceUsable) {
  Device device = open();
  // Launches have other teams than the kernels were compiled for.
  const std::vector<uint8_t> bytes =
      takesPtx(GetParam())
          ? withPtx(")\n{", ")\n.reqntid 32\n{")
          : withTarget(GetParam(), [](fb::TargetT &target, fb::ModuleT &) { target.kernels[0]->team_lanes = 128; });
  const std::vector<uint8_t> sound = test::sealed(test::testModule());
  Module refused = Module::load(device, bytes.data(), bytes.size());
  for (bool graphs : {false, true}) {
    device.setGraphs(graphs);
    for (int i = 0; i < 3; ++i) {
      expectError(KVC_INTERNAL, "kernel 'scale' failed on the device '" + GetParam() + "'",
                  [&] { scale(refused, {1, 2}, 3); });
    }
    // Of a sequence of launches: the first time and where it would be captured.
    for (int i = 0; i < 3; ++i) {
      expectError(KVC_INTERNAL, i == 0 || !graphs ? "kernel 'scale' failed" : "cannot capture a graph of 2 launches",
                  [&] { call(refused, "guarded", {1, 2}, 3); });
    }
  }
  EXPECT_THAT(scale(Module::load(device, sound.data(), sound.size()), {1, 2}, 3), ElementsAre(3, 6));
}

TEST_P(Gpu, CodeOfAnotherChipIsRefused) {
  if (takesPtx(GetParam())) {
    GTEST_SKIP() << "compiles the text for every chip";
  }
  Device device = open();
  const std::vector<uint8_t> bytes = withTarget(GetParam(), [&](fb::TargetT &target, fb::ModuleT &module) {
    // Under the name of this chip.
    const auto other = std::find_if(module.targets.begin(), module.targets.end(), [&](const auto &each) {
      return each->kind == fb::CodeKind::hsaco && each->name != target.name;
    });
    ASSERT_NE(other, module.targets.end());
    target.code = (*other)->code;
  });
  expectError(KVC_UNSUPPORTED, "cannot load the kernels on the device '" + GetParam() + "'",
              [&] { Module::load(device, bytes.data(), bytes.size()); });
  const std::vector<uint8_t> sound = test::sealed(test::testModule());
  EXPECT_THAT(scale(Module::load(device, sound.data(), sound.size()), {1, 2}, 3), ElementsAre(3, 6));
  expectCpuWorks();
}

TEST_P(Gpu, KernelsThatNeedMoreStagingMemoryThanThereIsAreRefused) {
  Device device = open();
  const std::vector<uint8_t> bytes =
      withTarget(GetParam(), [](fb::TargetT &target, fb::ModuleT &) { target.kernels[0]->staging_bytes = 512 << 10; });
  expectError(KVC_UNSUPPORTED,
              "kernel 'scale' needs 524288 bytes of shared memory, which the device '" + GetParam() + "' does not give",
              [&] { Module::load(device, bytes.data(), bytes.size()); });
  expectCpuWorks();
}

TEST_P(Gpu, MapsOfBoxes) {
  Device device = open();
  // Of the kernel's first argument, an array of two numbers.
  auto withMap = [&](uint32_t word) {
    return withTarget(GetParam(), [word](fb::TargetT &target, fb::ModuleT &) {
      const std::array<uint64_t, 4> strides{64, 128, 256, 512};
      const std::array<uint32_t, 4> extents{32, 8, 2, 2};
      const std::array<uint32_t, 5> box{32, 8, 2, 1, 1};
      target.kernels[0]->boxes = {fb::BoxMap(0, strides, extents, box, word, 64)};
    });
  };
  const std::vector<uint8_t> sound = withMap(0);
  if (!takesPtx(GetParam())) {
    expectError(KVC_UNSUPPORTED, "kernel 'scale' copies by tensor maps, which the device '" + GetParam() + "' does not",
                [&] { Module::load(device, sound.data(), sound.size()); });
    return;
  }
  // A kernel that has no such parameter takes the words alone.
  EXPECT_THAT(scale(Module::load(device, sound.data(), sound.size()), {1, 2}, 3), ElementsAre(3, 6));
  const std::vector<uint8_t> beyond = withMap(100), odd = withMap(1);
  expectError(KVC_CORRUPT, "kernel 'scale': expects an address and a size at word 100 for its tensor map 0",
              [&] { scale(Module::load(device, beyond.data(), beyond.size()), {1, 2}, 3); });
  // A length is no address: the driver refuses.
  expectError(KVC_INTERNAL, "cannot make tensor map 0 of kernel 'scale' on the device '" + GetParam() + "'",
              [&] { scale(Module::load(device, odd.data(), odd.size()), {1, 2}, 3); });
  expectCpuWorks();
}

TEST_P(Gpu, MemoryThatIsNotThereIsExhausted) {
  Device device = open();
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  Module module = Module::load(device, bytes.data(), bytes.size());
  const std::vector<int32_t> sizes{1 << 20, 1 << 19}; // 512 GiB
  const std::vector<int64_t> dims{2};
  expectError(KVC_EXHAUSTED, "cannot allocate 549755813888 bytes on the device '" + GetParam() + "'",
              [&] { module.call("sized", {Argument::tensor(sizes.data(), dims)}); });
  EXPECT_THAT(scale(module, {1, 2}, 3), ElementsAre(3, 6));
}

TEST_P(Gpu, AMissingDriverSaysWhatWasLookedFor) {
  struct Kind {
    std::string name, variable, lacks;
  };
  for (const Kind &kind :
       {Kind{"cuda", "KVC_CUDA", "expects a CUDA driver with the function 'cuInit', but it has none"},
        Kind{"hip", "KVC_HIP", "expects a library of HIP 6 or later with the function 'hipInit', but it has none"}}) {
    const std::string first = kind.name + ":0";
    {
      Variable driver(kind.variable.c_str(), "/nowhere/library.so.1");
      expectError(KVC_NOT_FOUND, "/nowhere/library.so.1", [&] { Device{first.c_str()}; });
    }
    {
      // A library that is no driver, as one of a version that lacks functions.
      Variable driver(kind.variable.c_str(), "libm.so.6");
      expectError(KVC_UNSUPPORTED, kind.lacks, [&] { Device{first.c_str()}; });
    }
    for (const char *which : {":", ":-1", ":x", ":0x"}) {
      expectError(KVC_NOT_FOUND, "expects a device such as " + first, [&] { Device{(kind.name + which).c_str()}; });
    }
  }
  expectCpuWorks();
}

TEST(Gpus, TwoDevicesAtATime) {
  const std::vector<std::string> names = gpus();
  if (names.size() < 2) {
    GTEST_SKIP() << "needs two GPUs among the devices";
  }
  const std::vector<uint8_t> bytes = test::sealed(test::testModule());
  // Each with the next one: two of one vendor, and one of each.
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    Device first(names[i].c_str()), second(names[i + 1].c_str());
    Module one = Module::load(first, bytes.data(), bytes.size()),
           two = Module::load(second, bytes.data(), bytes.size());
    Cache oneCache = one.cache(0, {0, 2, 16, 0, 0}), twoCache = two.cache(0, {0, 2, 16, 0, 0});
    for (int round = 0; round < 3; ++round) {
      EXPECT_THAT(scale(one, {1, 2}, 3), ElementsAre(3, 6));
      EXPECT_THAT(scale(two, {1, 2}, 5), ElementsAre(5, 10));
    }
    // A cache of one device is no argument for the other's module.
    BatchHandle batch = oneCache.next({0}, {0});
    expectError(KVC_INVALID_ARGUMENT, "",
                [&] { two.call("sum", {Argument::cache(oneCache.get()), Argument::batch(batch.get())}); });
  }
}

TEST(Gpus, CallsOfThreadsOnAllDevices) {
  const std::vector<std::string> names = gpus();
  const std::vector<uint8_t> bytes = test::sealed(test::testModule());
  std::vector<std::thread> threads;
  // An error of a device is one of the test, not of a thread.
  std::vector<Device> devices;
  devices.reserve(names.size());
  for (const std::string &name : names) {
    devices.emplace_back(name.c_str());
  }
  for (Device &device : devices) {
    threads.emplace_back([&device, &bytes] {
      Module module = Module::load(device, bytes.data(), bytes.size());
      for (int i = 0; i < 10; ++i) {
        EXPECT_THAT(scale(module, {1, 2}, float(i)), ElementsAre(float(i), float(2 * i)));
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace kvc::cts

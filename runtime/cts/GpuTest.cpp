//===- GpuTest.cpp - Conformance: what goes wrong on a GPU ----------------===//
//
// Kernels that fail, code that a driver refuses, memory that is not there, two devices at a time. Whatever happens, the
// CPU goes on.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

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

std::vector<float> scale(const Module &module, std::vector<float> x, float factor) {
  std::vector<int64_t> dims{int64_t(x.size())};
  return module.call("scale", {Argument::tensor(x.data(), dims), Argument::real(factor)})[0].copy<float>();
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

TEST_P(Gpu, AKernelThatFailsIsAnErrorAndSoAreCallsAfterIt) {
  if (!takesPtx(GetParam())) {
    GTEST_SKIP() << "changes the text of kernels, which this device does not take";
  }
  const std::vector<uint8_t> bytes = withPtx("ld.param.b64", "trap;\n\tld.param.b64");
  {
    Device device = open();
    Module module = Module::load(device, bytes.data(), bytes.size());
    expectError(KVC_INTERNAL, "device '" + GetParam() + "'", [&] { scale(module, {1, 2}, 3); });
    // A driver answers every later call of the context with the same error; nothing hangs or crashes.
    expectError(KVC_INTERNAL, GetParam(), [&] { scale(module, {1, 2}, 3); });
    expectError(KVC_INTERNAL, GetParam(),
                [&] { module.call("scalars", {Argument::integer(1), Argument::integer(2), Argument::real(1)}); });
    expectCpuWorks();
  }
  // Once everything of the lost context is released, the device can be opened again.
  Device device = open();
  std::vector<uint8_t> sound = test::sealed(test::testModule());
  EXPECT_THAT(scale(Module::load(device, sound.data(), sound.size()), {1, 2}, 3), ElementsAre(3, 6));
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
  if (!takesPtx(GetParam())) {
    GTEST_SKIP() << "changes the text of kernels, which this device does not take";
  }
  Device device = open();
  // Launches have one thread.
  const std::vector<uint8_t> bytes = withPtx(")\n{", ")\n.reqntid 32\n{"), sound = test::sealed(test::testModule());
  Module refused = Module::load(device, bytes.data(), bytes.size());
  for (int i = 0; i < 2; ++i) {
    expectError(KVC_INTERNAL, "kernel 'scale' failed on the device '" + GetParam() + "'",
                [&] { scale(refused, {1, 2}, 3); });
  }
  EXPECT_THAT(scale(Module::load(device, sound.data(), sound.size()), {1, 2}, 3), ElementsAre(3, 6));
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
  if (gpus().size() < 2) {
    GTEST_SKIP() << "needs two GPUs among the devices";
  }
  Device first(gpus()[0].c_str()), second(gpus()[1].c_str());
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  Module one = Module::load(first, bytes.data(), bytes.size()), two = Module::load(second, bytes.data(), bytes.size());
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

} // namespace
} // namespace kvc::cts

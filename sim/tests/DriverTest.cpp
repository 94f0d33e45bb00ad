//===- DriverTest.cpp - The simulated driver through dlopen ---------------===//
#include "kvcsim/kvcsim.h"

#include <dlfcn.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using testing::HasSubstr;

namespace {

constexpr char module[] = R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
.maxntid 256, 1, 1
{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd3], %f2;
DONE:
  ret;
}
)";

/// The library, and its functions by name.
class Driver {
public:
  Driver() : handle(dlopen(KVCSIM_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {}
  template <typename... Args> int call(const char *name, Args... args) {
    auto *function = reinterpret_cast<int (*)(Args...)>(dlsym(handle, name));
    return function ? function(args...) : -1;
  }
  const char *lastError() { return reinterpret_cast<const char *(*)()>(dlsym(handle, "kvcsim_last_error"))(); }
  void *handle;
};

Driver &driver() {
  static Driver loaded;
  return loaded;
}

class DriverTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_NE(driver().handle, nullptr) << dlerror();
    driver().call("kvcsim_set_option", "log", "off");
    ASSERT_EQ(driver().call("cuInit", 0u), 0);
    ASSERT_EQ(driver().call("cuDevicePrimaryCtxRetain", &context, 0), 0);
    ASSERT_EQ(driver().call("cuCtxSetCurrent", context), 0);
  }
  void TearDown() override {
    driver().call("cuCtxSetCurrent", static_cast<void *>(nullptr));
    EXPECT_EQ(driver().call("cuDevicePrimaryCtxRelease_v2", 0), 0);
  }

  void load() {
    ASSERT_EQ(driver().call("cuModuleLoadData", &loaded, static_cast<const void *>(module)), 0) << driver().lastError();
    ASSERT_EQ(driver().call("cuModuleGetFunction", &function, loaded, "scale"), 0);
  }

  int launch(unsigned blocks, unsigned threads, unsigned shared, unsigned long long data, float factor, unsigned n,
             void *stream = nullptr) {
    void *parameters[] = {&data, &factor, &n};
    return driver().call("cuLaunchKernel", function, blocks, 1u, 1u, threads, 1u, 1u, shared, stream,
                         static_cast<void **>(parameters), static_cast<void **>(nullptr));
  }

  void *context = nullptr;
  void *loaded = nullptr;
  void *function = nullptr;
};

TEST_F(DriverTest, LaunchesAKernelOnDeviceMemory) {
  load();
  unsigned long long data = 0;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(4000)), 0);
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = float(i);
  }
  ASSERT_EQ(driver().call("cuMemcpyHtoD_v2", data, static_cast<const void *>(values.data()), size_t(4000)), 0);
  ASSERT_EQ(launch(4, 256, 0, data, 3.0f, 1000), 0);
  ASSERT_EQ(driver().call("cuMemcpyDtoH_v2", static_cast<void *>(values.data()), data, size_t(4000)), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], 3.0f * float(i));
  }
  EXPECT_EQ(driver().call("cuMemFree_v2", data), 0);
  EXPECT_EQ(driver().call("cuMemFree_v2", data), 1);
}

TEST_F(DriverTest, TellsOfABadAddressInTheCallsAfterTheLaunch) {
  load();
  unsigned long long data = 0;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(400)), 0);
  EXPECT_EQ(launch(1, 128, 0, data, 3.0f, 128), 0);
  EXPECT_EQ(driver().call("cuCtxSynchronize"), 700);
  EXPECT_THAT(driver().lastError(), HasSubstr("`ld.global.f32 %f2, [%rd3]`"));
  EXPECT_THAT(driver().lastError(), HasSubstr("0 bytes behind the end of an allocation of 400 bytes"));
  // The context is lost, the driver is not.
  EXPECT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(400)), 700);
  EXPECT_EQ(driver().call("cuDevicePrimaryCtxReset_v2", 0), 0);
  EXPECT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(400)), 0);
}

TEST_F(DriverTest, EndsKernelsThatGoOnForLongerThanTheLimit) {
  load();
  unsigned long long data = 0;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(4000)), 0);
  EXPECT_EQ(driver().call("kvcsim_set_option", "limit", "many"), -1);
  ASSERT_EQ(driver().call("kvcsim_set_option", "limit", "20"), 0);
  EXPECT_EQ(launch(4, 256, 0, data, 3.0f, 1000), 0);
  EXPECT_NE(driver().call("cuCtxSynchronize"), 0);
  EXPECT_THAT(driver().lastError(), HasSubstr("expects at most 20 warp instructions"));
  ASSERT_EQ(driver().call("kvcsim_set_option", "limit", "0"), 0);
  EXPECT_EQ(driver().call("cuDevicePrimaryCtxReset_v2", 0), 0);
}

TEST_F(DriverTest, RefusesMachineCodeAndBadPtx) {
  const char cubin[] = "\x7f"
                       "ELF rest";
  EXPECT_EQ(driver().call("cuModuleLoadData", &loaded, static_cast<const void *>(cubin)), 209);
  const char unknown[] = ".version 8.0\n.target sm_80\n.entry k() {\n frobnicate.u32;\n}\n";
  EXPECT_EQ(driver().call("cuModuleLoadData", &loaded, static_cast<const void *>(unknown)), 218);
  EXPECT_THAT(driver().lastError(), HasSubstr("module:4"));
  const char later[] = ".version 9.9\n.target sm_80\n.entry k() { ret; }\n";
  EXPECT_EQ(driver().call("cuModuleLoadData", &loaded, static_cast<const void *>(later)), 222);
  EXPECT_THAT(driver().lastError(), HasSubstr("expects PTX 6.0 to 9.1, but got 9.9"));
  const char newer[] = ".version 8.0\n.target sm_90a\n.entry k() { ret; }\n";
  EXPECT_EQ(driver().call("cuModuleLoadData", &loaded, static_cast<const void *>(newer)), 218);
}

TEST_F(DriverTest, RefusesLaunchesThatDoNotFit) {
  load();
  EXPECT_EQ(launch(1, 257, 0, 0, 1.0f, 0), 1);
  EXPECT_THAT(driver().lastError(), HasSubstr(".maxntid"));
  EXPECT_EQ(launch(0, 32, 0, 0, 1.0f, 0), 1);
  EXPECT_EQ(launch(1, 32, 50000, 0, 1.0f, 0), 1);
  EXPECT_EQ(driver().call("cuFuncSetAttribute", function, 8, 60000), 0);
  EXPECT_EQ(launch(1, 32, 50000, 0, 1.0f, 0), 0);
  EXPECT_EQ(driver().call("cuFuncSetAttribute", function, 8, 200000), 1);
}

TEST_F(DriverTest, HasVariablesOfModules) {
  load();
  unsigned long long address = 0;
  size_t bytes = 0;
  ASSERT_EQ(driver().call("cuModuleGetGlobal_v2", &address, &bytes, loaded, "counter"), 0);
  ASSERT_EQ(bytes, 4u);
  unsigned value = 0;
  ASSERT_EQ(driver().call("cuMemcpyDtoH_v2", static_cast<void *>(&value), address, bytes), 0);
  EXPECT_EQ(value, 5u);
  EXPECT_EQ(driver().call("cuModuleGetGlobal_v2", &address, &bytes, loaded, "missing"), 500);
}

TEST_F(DriverTest, ReplaysACapturedGraph) {
  load();
  void *stream = nullptr, *graph = nullptr, *exec = nullptr;
  unsigned long long data = 0;
  float value = 2.0f;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(4)), 0);
  ASSERT_EQ(driver().call("cuMemcpyHtoD_v2", data, static_cast<const void *>(&value), size_t(4)), 0);
  ASSERT_EQ(driver().call("cuStreamCreate", &stream, 1u), 0);
  ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, 0), 0);
  ASSERT_EQ(launch(1, 32, 0, data, 10.0f, 1, stream), 0);
  ASSERT_EQ(driver().call("cuStreamEndCapture", stream, &graph), 0);
  ASSERT_EQ(driver().call("cuGraphInstantiateWithFlags", &exec, graph, 0ull), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(driver().call("cuGraphLaunch", exec, stream), 0);
  }
  ASSERT_EQ(driver().call("cuMemcpyDtoH_v2", static_cast<void *>(&value), data, size_t(4)), 0);
  EXPECT_EQ(value, 2000.0f);
}

TEST_F(DriverTest, CallsThatMayNotBeMadeWhileAStreamCapturesSpoilTheCapture) {
  load();
  void *stream = nullptr, *graph = nullptr;
  unsigned long long data = 0, other = 0;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(1024)), 0);
  ASSERT_EQ(driver().call("cuStreamCreate", &stream, 0u), 0);
  constexpr int global = 0, threadLocal = 1, relaxed = 2;
  constexpr int unsupported = 900, invalidated = 901, unmatched = 903, implicit = 906, wrongThread = 908;
  std::vector<uint8_t> host(1024);
  const std::vector<std::function<int()>> calls{
      [&] { return driver().call("cuMemAlloc_v2", &other, size_t(64)); },
      [&] { return driver().call("cuMemFree_v2", data); },
      [&] { return driver().call("cuMemcpyDtoH_v2", static_cast<void *>(host.data()), data, size_t(64)); },
      [&] { return driver().call("cuMemsetD8_v2", data, static_cast<unsigned char>(1), size_t(64)); },
      [&] { return driver().call("cuModuleUnload", loaded); },
      [&] { return driver().call("cuStreamSynchronize", stream); },
      [&] { return driver().call("cuCtxSynchronize"); }};
  for (const auto &call : calls) {
    ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, threadLocal), 0);
    EXPECT_EQ(call(), unsupported);
    EXPECT_THAT(driver().lastError(), HasSubstr("captures"));
    // What comes after it is refused, and there is no graph.
    EXPECT_EQ(launch(1, 256, 0, data, 2, 256, stream), invalidated);
    EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), invalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), unmatched);
  }
  // The default stream waits for this one.
  ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, global), 0);
  EXPECT_EQ(launch(1, 256, 0, data, 2, 256), implicit);
  EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), invalidated);
  // Other threads may do what they want in thread-local mode, but not end the capture.
  ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, threadLocal), 0);
  std::thread([&] {
    driver().call("cuCtxSetCurrent", context);
    EXPECT_EQ(driver().call("cuMemAlloc_v2", &other, size_t(64)), 0);
    EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), wrongThread);
  }).join();
  EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), invalidated);
  ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, relaxed), 0);
  EXPECT_EQ(driver().call("cuMemFree_v2", other), 0);
  EXPECT_EQ(driver().call("cuStreamEndCapture", stream, &graph), 0);
  EXPECT_EQ(driver().call("cuStreamBeginCapture_v2", stream, 3), 1);
  EXPECT_EQ(driver().call("cuMemFree_v2", data), 0);
}

TEST_F(DriverTest, RefusesAGraphWhoseModuleIsGone) {
  load();
  void *stream = nullptr, *graph = nullptr, *exec = nullptr;
  unsigned long long data = 0;
  ASSERT_EQ(driver().call("cuMemAlloc_v2", &data, size_t(1024)), 0);
  ASSERT_EQ(driver().call("cuStreamCreate", &stream, 1u), 0);
  ASSERT_EQ(driver().call("cuStreamBeginCapture_v2", stream, 0), 0);
  ASSERT_EQ(launch(1, 256, 0, data, 2, 256, stream), 0);
  ASSERT_EQ(driver().call("cuStreamEndCapture", stream, &graph), 0);
  ASSERT_EQ(driver().call("cuGraphInstantiateWithFlags", &exec, graph, 0ull), 0);
  ASSERT_EQ(driver().call("cuModuleUnload", loaded), 0);
  EXPECT_EQ(driver().call("cuGraphLaunch", exec, stream), 400);
  EXPECT_THAT(driver().lastError(), HasSubstr("modules of a graph's kernels"));
  EXPECT_EQ(driver().call("cuMemFree_v2", data), 0);
}

TEST_F(DriverTest, AnswersForEveryChip) {
  const struct {
    const char *target;
    int major, minor, multiprocessors, sharedOptin;
  } chips[] = {{"sm_80", 8, 0, 108, 166912},  {"sm_86", 8, 6, 82, 101376},     {"sm_89", 8, 9, 128, 101376},
               {"sm_90a", 9, 0, 132, 232448}, {"sm_100a", 10, 0, 148, 232448}, {"sm_103a", 10, 3, 148, 232448},
               {"sm_120", 12, 0, 170, 101376}};
  for (const auto &chip : chips) {
    const int device = driver().call("kvcsim_device", chip.target);
    ASSERT_GE(device, 0);
    auto attribute = [&](int id) {
      int value = -1;
      EXPECT_EQ(driver().call("cuDeviceGetAttribute", &value, id, device), 0);
      return value;
    };
    EXPECT_EQ(attribute(75), chip.major);
    EXPECT_EQ(attribute(76), chip.minor);
    EXPECT_EQ(attribute(16), chip.multiprocessors);
    EXPECT_EQ(attribute(97), chip.sharedOptin);
    EXPECT_EQ(driver().call("kvcsim_device", chip.target), device);
  }
  EXPECT_EQ(driver().call("kvcsim_device", "sm_13"), -1);
}

TEST_F(DriverTest, FindsFunctionsByTheirUnversionedNames) {
  void *found = nullptr;
  int status = -1;
  ASSERT_EQ(driver().call("cuGetProcAddress_v2", "cuMemAlloc", &found, 12000, 0ul, &status), 0);
  EXPECT_EQ(found, dlsym(driver().handle, "cuMemAlloc_v2"));
  EXPECT_EQ(driver().call("cuGetProcAddress_v2", "cuNothing", &found, 12000, 0ul, &status), 500);
  EXPECT_EQ(status, 1);
}

} // namespace

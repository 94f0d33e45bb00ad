//===- MisuseTest.cpp - Conformance: misuse of the C interface ------------===//
//
// Null handles, wrong counts, kinds, shapes and numbers: always a status with a
// message, never a crash, and the next correct call works.
//
//===----------------------------------------------------------------------===//
#include "Conformance.h"

#include <cstdlib>

namespace kvc::cts {
namespace {

class Misuse : public Conformance {
protected:
  void expectStatus(kvc_status_t got, kvc_status_t want, const std::string &text) {
    EXPECT_EQ(got, want) << kvc_last_error_message();
    EXPECT_THAT(kvc_last_error_message(), HasSubstr(text));
  }
};
KVC_INSTANTIATE_FOR_DEVICES(Misuse);

TEST_P(Misuse, NullHandles) {
  const char *null = "null pointer";
  kvc_device_t *d = nullptr;
  kvc_module_t *m = nullptr;
  kvc_cache_t *c = nullptr;
  kvc_batch_t *b = nullptr;
  kvc_context_t *x = nullptr;
  size_t n;
  int64_t i;
  int32_t s;
  float f;
  kvc_port_t port;
  kvc_cache_spec_t spec;
  kvc_cache_statistics_t statistics;
  kvc_cache_options_t options{sizeof(options), 1, 1, 0, 0};
  kvc_cache_tables_t tables{};
  kvc_tensor_t tensor;
  const kvc_status_t invalid = KVC_INVALID_ARGUMENT;
  expectStatus(kvc_device_create(nullptr, nullptr, &d), invalid, null);
  expectStatus(kvc_device_create("cpu", nullptr, nullptr), invalid, null);
  expectStatus(kvc_device_supports(nullptr, "x86-64-v3"), invalid, null);
  expectStatus(kvc_device_supports(device->get(), nullptr), invalid, null);
  expectStatus(kvc_device_set_profiling(nullptr, 1), invalid, null);
  const char *json = "";
  expectStatus(kvc_device_take_profile(nullptr, &json), invalid, null);
  EXPECT_EQ(json, nullptr);
  expectStatus(kvc_device_take_profile(device->get(), nullptr), invalid, null);
  expectStatus(kvc_module_load_file(nullptr, "x", nullptr, &m), invalid, null);
  expectStatus(kvc_module_load_file(device->get(), nullptr, nullptr, &m), invalid, null);
  expectStatus(kvc_module_load_file(device->get(), "x", nullptr, nullptr), invalid, null);
  expectStatus(kvc_module_load_bytes(device->get(), nullptr, 5, nullptr, &m), invalid, null);
  expectStatus(kvc_module_bind_weights(nullptr, "x"), invalid, null);
  expectStatus(kvc_module_bind_weights(module->get(), nullptr), invalid, null);
  expectStatus(kvc_module_find_function(nullptr, "x", &n), invalid, null);
  expectStatus(kvc_module_find_function(module->get(), nullptr, &n), invalid, null);
  expectStatus(kvc_module_argument_count(nullptr, 0, &n), invalid, null);
  expectStatus(kvc_module_result_count(module->get(), 0, nullptr), invalid, null);
  expectStatus(kvc_module_argument(nullptr, 0, 0, &port), invalid, null);
  expectStatus(kvc_module_result(module->get(), 0, 0, nullptr), invalid, null);
  expectStatus(kvc_module_cache_spec(nullptr, 0, &spec), invalid, null);
  expectStatus(kvc_cache_create(nullptr, 0, &options, &c), invalid, null);
  expectStatus(kvc_cache_create(module->get(), 0, nullptr, &c), invalid, null);
  expectStatus(kvc_cache_create(module->get(), 0, &options, nullptr), invalid, null);
  expectStatus(kvc_cache_clone(nullptr, &c), invalid, null);
  expectStatus(kvc_cache_fork(nullptr, 0, 0), invalid, null);
  expectStatus(kvc_cache_truncate(nullptr, 0, 0), invalid, null);
  expectStatus(kvc_cache_clear(nullptr, 0), invalid, null);
  expectStatus(kvc_cache_length(nullptr, 0, 0, &i), invalid, null);
  expectStatus(kvc_cache_position(nullptr, 0, &i), invalid, null);
  expectStatus(kvc_cache_get_statistics(nullptr, &statistics), invalid, null);
  expectStatus(kvc_cache_table_shape(nullptr, &s, &i, &i), invalid, null);
  expectStatus(kvc_cache_get_tables(nullptr, &tables), invalid, null);
  expectStatus(kvc_cache_set_tables(nullptr, &tables), invalid, null);
  expectStatus(kvc_cache_read(nullptr, KVC_PAGES, 0, &i, 1), invalid, null);
  expectStatus(kvc_cache_write(nullptr, KVC_PAGES, 0, &i, 1), invalid, null);
  expectStatus(kvc_batch_create(nullptr, 0, nullptr, nullptr, nullptr, &b), invalid, null);
  expectStatus(kvc_batch_create(device->get(), 1, nullptr, nullptr, nullptr, &b), invalid, null);
  expectStatus(kvc_batch_create_next(nullptr, 0, nullptr, nullptr, &b), invalid, null);
  expectStatus(kvc_module_call(nullptr, 0, nullptr, 0, nullptr, 0), invalid, null);
  expectStatus(kvc_value_tensor(nullptr, &tensor), invalid, null);
  expectStatus(kvc_value_integer(nullptr, &i), invalid, null);
  expectStatus(kvc_value_real(nullptr, &f), invalid, null);
  expectStatus(kvc_value_cache(nullptr, &c), invalid, null);
  expectStatus(kvc_context_create(nullptr, 0, &options, &x), invalid, null);
  expectStatus(kvc_context_module(nullptr, &m), invalid, null);
  expectStatus(kvc_context_cache(nullptr, 0, &c), invalid, null);
  expectStatus(kvc_sequence_create(nullptr, &s), invalid, null);
  expectStatus(kvc_sequence_free(nullptr, 0), invalid, null);
  expectStatus(kvc_sequence_fork(nullptr, 0, &s), invalid, null);
  expectStatus(kvc_sequence_truncate(nullptr, 0, 0), invalid, null);
  expectStatus(kvc_sequence_position(nullptr, 0, &i), invalid, null);
  expectStatus(kvc_context_batch(nullptr, 0, nullptr, nullptr, &b), invalid, null);
  expectStatus(kvc_context_get_statistics(nullptr, &statistics), invalid, null);
  expectStatus(kvc_context_call(nullptr, 0, nullptr, 0, nullptr, 0), invalid, null);
  EXPECT_EQ(kvc_module_function_name(nullptr, 0), nullptr);
  EXPECT_EQ(kvc_module_function_name(module->get(), 999), nullptr);
  EXPECT_EQ(kvc_module_function_count(nullptr), 0u);
  EXPECT_EQ(kvc_batch_rows(nullptr), 0);
  kvc_device_release(nullptr);
  kvc_module_release(nullptr);
  kvc_cache_release(nullptr);
  kvc_batch_release(nullptr);
  kvc_context_release(nullptr);
  kvc_value_release(nullptr);
}

TEST_P(Misuse, Numbers) {
  EXPECT_EQ(kvc_dtype_size(kvc_dtype_t(99)), 0u);
  EXPECT_STREQ(kvc_dtype_name(kvc_dtype_t(-1)), "?");
  EXPECT_STREQ(kvc_status_name(kvc_status_t(99)), "?");
  EXPECT_STREQ(kvc_status_name(KVC_EXHAUSTED), "exhausted");
  kvc_device_t *d;
  kvc_device_options_t options{sizeof(options), -1, nullptr};
  expectStatus(kvc_device_create("cpu", &options, &d), KVC_INVALID_ARGUMENT, "threads, but got -1");
  options = {sizeof(options), 100000, nullptr};
  expectStatus(kvc_device_create("cpu", &options, &d), KVC_INVALID_ARGUMENT, "threads, but got 100000");
  options = {3, 1, nullptr};
  expectStatus(kvc_device_create("cpu", &options, &d), KVC_INVALID_ARGUMENT, "struct_size");
  expectStatus(kvc_device_create("abacus", nullptr, &d), KVC_NOT_FOUND, "'abacus'");
  EXPECT_EQ(d, nullptr);
  kvc_port_t port;
  expectStatus(kvc_module_argument(module->get(), 999, 0, &port), KVC_OUT_OF_RANGE, "functions, but got 999");
  expectStatus(kvc_module_argument(module->get(), 0, 99, &port), KVC_OUT_OF_RANGE, "ports, but got 99");
  size_t n;
  expectStatus(kvc_module_find_function(module->get(), "nothing", &n), KVC_NOT_FOUND, "scale");
  for (auto [sequences, length, pages, tails] :
       {std::array<int64_t, 4>{-1, 10, 0, 0}, {1, -1, 0, 0}, {1, 10, -1, 0}, {1, 10, 0, -1}, {1 << 30, 10, 0, 0}}) {
    expectError(KVC_INVALID_ARGUMENT, "expects",
                [&, s = sequences, l = length, p = pages, t = tails] { cache(1, int32_t(s), l, p, t); });
  }
  // More than any machine has: an error, not an abort.
  expectError(KVC_OUT_OF_RANGE, "pool", [&] { cache(0, 1 << 20, 2147480000, 0, 0); });
  expectError(KVC_OUT_OF_RANGE, "cache specs", [&] { cache(9, 1, 1); });
}

TEST_P(Misuse, Batches) {
  auto batch = [&](std::vector<int32_t> sequences, std::vector<int32_t> rows, std::vector<int32_t> positions) {
    device->batch(sequences, rows, positions);
  };
  expectError(KVC_INVALID_ARGUMENT, "entry 0", [&] { batch({-1}, {1}, {0}); });
  expectError(KVC_INVALID_ARGUMENT, "entry 1", [&] { batch({3, 3}, {1, 1}, {0, 1}); });
  expectError(KVC_INVALID_ARGUMENT, "row count", [&] { batch({3}, {-2}, {}); });
  expectError(KVC_INVALID_ARGUMENT, "row 1: expects a position", [&] { batch({3}, {2}, {0, -1}); });
  Cache c = cache(0, 2, 10);
  BatchHandle outside = device->batch({2}, {0}, {});
  expectError(KVC_OUT_OF_RANGE, "expects a sequence from 0 to 1, but got 2",
              [&] { module->call("sum", {Argument::cache(c.get()), Argument::batch(outside.get())}); });
  expectError(KVC_OUT_OF_RANGE, "expects a sequence", [&] { c.next({5}, {1}); });
}

TEST_P(Misuse, Calls) {
  Cache c = cache(0, 1, 10), other = cache(1, 1, 10);
  BatchHandle batch = c.next({0}, {2});
  std::vector<float> data(64);
  std::vector<int64_t> good{2, 4}, wide{2, 5}, more{3, 4}, flat{8}, negative{-2, 4};
  auto call = [&](std::vector<Argument> arguments) { module->call("append", arguments); };
  Argument cacheArgument = Argument::cache(c.get()), batchArgument = Argument::batch(batch.get()),
           rows = Argument::tensor(data.data(), good);
  expectError(KVC_INVALID_ARGUMENT, "expects 3 arguments, but got 2", [&] { call({cacheArgument, batchArgument}); });
  expectError(KVC_INVALID_ARGUMENT, "expects a cache, but got a batch",
              [&] { call({batchArgument, batchArgument, rows}); });
  expectError(KVC_INVALID_ARGUMENT, "expects a batch, but got an integer",
              [&] { call({cacheArgument, Argument::integer(1), rows}); });
  expectError(KVC_INVALID_ARGUMENT, "expects a cache of type !test.cache<plain>, but got !test.cache<sealed>",
              [&] { call({Argument::cache(other.get()), batchArgument, rows}); });
  expectError(KVC_INVALID_ARGUMENT, "expects size 4 in dimension 1, but got shape [2, 5]",
              [&] { call({cacheArgument, batchArgument, Argument::tensor(data.data(), wide)}); });
  expectError(KVC_INVALID_ARGUMENT, "expects size 2 in dimension 0, but got shape [3, 4]",
              [&] { call({cacheArgument, batchArgument, Argument::tensor(data.data(), more)}); });
  expectError(KVC_INVALID_ARGUMENT, "expects rank 2, but got shape [8]",
              [&] { call({cacheArgument, batchArgument, Argument::tensor(data.data(), flat)}); });
  expectError(KVC_INVALID_ARGUMENT, "but got shape [-2, 4]",
              [&] { call({cacheArgument, batchArgument, Argument::tensor(data.data(), negative)}); });
  expectError(KVC_INVALID_ARGUMENT, "expects elements of type f32, but got i32", [&] {
    call({cacheArgument, batchArgument, Argument::tensor(reinterpret_cast<const int32_t *>(data.data()), good)});
  });
  expectError(KVC_INVALID_ARGUMENT, "null pointer", [&] {
    call({cacheArgument, batchArgument, Argument::tensor(static_cast<const float *>(nullptr), good)});
  });
  expectError(KVC_INVALID_ARGUMENT, "null pointer", [&] { call({Argument::cache(nullptr), batchArgument, rows}); });
  Argument wrong = rows;
  wrong.kind = kvc_kind_t(77);
  expectError(KVC_INVALID_ARGUMENT, "known kind", [&] { call({cacheArgument, batchArgument, wrong}); });
  wrong = rows;
  wrong.kvc_argument_t::tensor.dtype = kvc_dtype_t(77);
  expectError(KVC_INVALID_ARGUMENT, "known element type", [&] { call({cacheArgument, batchArgument, wrong}); });
  wrong = rows;
  wrong.kvc_argument_t::tensor.rank = 1000;
  expectError(KVC_INVALID_ARGUMENT, "expects a rank", [&] { call({cacheArgument, batchArgument, wrong}); });
  expectError(KVC_INVALID_ARGUMENT, "that another argument has too",
              [&] { module->call("layers", {cacheArgument, cacheArgument, batchArgument, rows}); });
  kvc_value_t *value = nullptr;
  size_t append = module->function("append");
  kvc_argument_t arguments[3] = {cacheArgument, batchArgument, rows};
  expectStatus(kvc_module_call(module->get(), append, arguments, 3, &value, 0), KVC_INVALID_ARGUMENT,
               "returns 1 results, but got room for 0");
  expectStatus(kvc_module_call(module->get(), append, arguments, 3, nullptr, 1), KVC_INVALID_ARGUMENT, "'results'");
  expectStatus(kvc_module_call(module->get(), 999, arguments, 3, &value, 1), KVC_OUT_OF_RANGE, "functions");
  // Nothing of all this has changed the cache, and a good call works.
  EXPECT_EQ(c.length(0), 0);
  auto results = module->call("append", {cacheArgument, batchArgument, rows});
  EXPECT_EQ(c.length(0), 2);
  EXPECT_EQ(results[0].kind(), KVC_CACHE);
  expectError(KVC_INVALID_ARGUMENT, "expects a value that is a tensor", [&] { results[0].tensor(); });
  expectError(KVC_INVALID_ARGUMENT, "expects a value that is an integer", [&] { results[0].integer(); });
  expectError(KVC_INVALID_ARGUMENT, "expects a value that is a real number", [&] { results[0].real(); });
  // A batch made before an append says where its rows were to go; the length is checked, not the position.
  EXPECT_EQ(Cache(results[0].cache()).length(0), 2);
}

/// Sets a variable for the life of the object.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }

private:
  const char *name;
};

TEST_P(Misuse, Environment) {
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  auto load = [&] { Module::load(Device(GetParam().c_str(), 1), bytes.data(), bytes.size()); };
  load();
  {
    Variable target("KVC_TARGET", "z80");
    expectError(KVC_NOT_FOUND, "expects target 'z80' in the artifact", load);
  }
#if defined(__x86_64__)
  if (GetParam() == "cpu") {
    Variable level("KVC_CPU", "x86-64");
    expectError(KVC_UNSUPPORTED,
                "target 'x86-64-v3' expects an x86-64 CPU with AVX2, FMA, F16C and BMI2, but got x86-64", load);
  }
  if (GetParam() == "cpu") {
    Variable level("KVC_CPU", "vax");
    expectError(KVC_INVALID_ARGUMENT, "'vax'", load);
  }
#endif
}

TEST_P(Misuse, Artifacts) {
  std::vector<uint8_t> bytes = test::sealed(test::testModule());
  auto load = [&](const std::vector<uint8_t> &file, const char *target = nullptr) {
    Module::load(*device, file.data(), file.size(), target);
  };
  load(bytes);
  expectError(KVC_NOT_FOUND, "expects target 'z80' in the artifact", [&] { load(bytes, "z80"); });
  const bool isCpu = GetParam() == "cpu";
  // The module with nothing but the target of this device, changed.
  auto changed = [&](auto change) {
    fb::ModuleT module = test::testModule();
    size_t own = isCpu ? 0 : 1;
    for (size_t i = 0; i < module.targets.size(); ++i) {
      own = GetParam() == "sim:" + module.targets[i]->name ? i : own;
    }
    std::swap(module.targets[0], module.targets[own]);
    module.targets.resize(1);
    change(*module.targets[0]);
    return test::sealed(module);
  };
  auto expectLoadError = [&](kvc_status_t status, const std::string &text, auto change) {
    expectError(status, text, [&] { load(changed(change)); });
  };
  load(changed([](fb::TargetT &) {}));
  if (isCpu) {
    expectLoadError(KVC_UNSUPPORTED, "expects a CPU target, but got 'sm_90a'",
                    [](fb::TargetT &target) { target.name = "sm_90a"; });
    expectLoadError(KVC_CORRUPT, "expects", [](fb::TargetT &target) { target.code.resize(1000); });
    expectLoadError(KVC_CORRUPT, "shorter than an ELF header", [](fb::TargetT &target) { target.code.assign(10, 1); });
  } else if (!takesPtx(GetParam())) {
    for (const char *name : {"x86-64-v3", "sm_80", "gfx", "gfx9420"}) {
      expectLoadError(KVC_UNSUPPORTED, "expects code of an AMD GPU for",
                      [&](fb::TargetT &target) { target.name = name; });
    }
    expectLoadError(KVC_UNSUPPORTED, "expects a code object",
                    [](fb::TargetT &target) { target.kind = fb::CodeKind::cubin; });
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", [](fb::TargetT &target) { target.code.assign(100, 1); });
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", [](fb::TargetT &target) { target.code.resize(1000); });
  } else {
    for (const char *name : {"x86-64-v3", "sm_", "sm_80b", "sm_9999999999"}) {
      expectLoadError(KVC_UNSUPPORTED, "expects code of an NVIDIA GPU, but got",
                      [&](fb::TargetT &target) { target.name = name; });
    }
    expectLoadError(KVC_UNSUPPORTED, "expects code that compute capability",
                    [](fb::TargetT &target) { target.name = "sm_199"; });
    expectLoadError(KVC_UNSUPPORTED, "expects a cubin",
                    [](fb::TargetT &target) { target.kind = fb::CodeKind::shared_object; });
    // Neither the machine code nor the text is sound.
    auto withText = [](std::string text) {
      return [text](fb::TargetT &target) {
        target.code.assign(100, 1);
        target.assembly = text;
      };
    };
    const std::string ptx = test::testModule().targets[1]->assembly;
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", withText(""));
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", withText("no PTX at all"));
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", withText(ptx.substr(0, ptx.size() / 2)));
    std::string unknown = ptx;
    unknown.replace(unknown.find("mul.rn.f32"), 10, "mul.rq.f32");
    expectLoadError(KVC_CORRUPT, "cannot load the kernels", withText(unknown));
    expectLoadError(KVC_CORRUPT, "expects a kernel 'scale'", withText(ptx.substr(0, ptx.find("// .globl"))));
    expectLoadError(KVC_UNSUPPORTED, "bytes of shared memory, which the device",
                    [](fb::TargetT &target) { target.kernels[0]->staging_bytes = 1 << 20; });
  }
  expectLoadError(KVC_CORRUPT, "expects a kernel 'missing'",
                  [](fb::TargetT &target) { target.kernels[0]->name = "missing"; });
  expectError(KVC_NOT_FOUND, "no-such-file", [&] { Module::load(*device, "no-such-file.kvca"); });
  expectError(KVC_INVALID_ARGUMENT, "regular file", [&] { Module::load(*device, "/"); });
  expectError(KVC_INVALID_ARGUMENT, "regular file", [&] { Module::load(*device, "/dev/null"); });
}

} // namespace
} // namespace kvc::cts

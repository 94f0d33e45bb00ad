//===- TestModule.cpp - An artifact for tests of the runtime --------------===//
//
// Builds the plans with a few helpers; the comment before each function is its
// signature.
//
//===----------------------------------------------------------------------===//
#include "support/TestModule.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace kvc::test {
namespace {

using namespace fb;

constexpr const char *kernelNames[] = {"scale",      "add_scratch",     "scalars",      "append_plain",
                                       "sum_plain",  "keep_plain",      "break_length", "append_sealed",
                                       "sum_sealed", "truncate_sealed", "trap_negative"};

enum KernelIndex : uint32_t {
  scale,
  addScratch,
  scalars,
  appendPlain,
  sumPlain,
  keepPlain,
  breakLength,
  appendSealed,
  sumSealed,
  truncateSealed,
  trapNegative
};

/// Writes one function down.
class Builder {
public:
  explicit Builder(std::string name) { function.name = std::move(name); }

  int32_t node(ExprOp op, int64_t a = 0, int64_t b = 0) {
    if (op == ExprOp::constant) {
      function.exprs.emplace_back(op, 0, 0, a);
    } else {
      function.exprs.emplace_back(op, int32_t(a), int32_t(b), 0);
    }
    return int32_t(function.exprs.size() - 1);
  }
  int32_t constant(int64_t value) { return node(ExprOp::constant, value); }

  static Dim dynamic(int32_t expr = -1) { return Dim(-1, expr); }
  static Dim fixed(int64_t size) { return Dim(size, -1); }

  uint32_t tensor(TensorSource source, DType dtype, std::vector<Dim> dims, uint32_t base = 0, int32_t offset = -1) {
    TensorT tensor;
    tensor.dtype = dtype;
    tensor.dims = std::move(dims);
    tensor.source = source;
    if (source == TensorSource::view) {
      tensor.base = int32_t(base);
      tensor.offset = offset;
    }
    if (source == TensorSource::constant) {
      tensor.constant = int32_t(base);
    }
    return add(std::move(tensor));
  }
  uint32_t weight(std::string name, uint32_t type, uint64_t bytes, DType dtype, std::vector<Dim> dims) {
    TensorT tensor;
    tensor.dtype = dtype;
    tensor.dims = std::move(dims);
    tensor.source = TensorSource::weight;
    tensor.weight = std::move(name);
    tensor.weight_type = type;
    tensor.weight_bytes = bytes;
    return add(std::move(tensor));
  }
  uint32_t cache(uint32_t spec) {
    CacheT cache;
    cache.spec = spec;
    return add(std::move(cache));
  }
  uint32_t batch() { return add(BatchT()); }
  uint32_t scalar(DType dtype, int32_t expr = -1) {
    ScalarT scalar;
    scalar.dtype = dtype;
    scalar.expr = expr;
    return add(std::move(scalar));
  }

  void argument(std::string name, uint32_t value) { port(function.arguments, std::move(name), value); }
  void result(uint32_t value) { port(function.results, "", value); }

  void dispatch(KernelIndex kernel, std::vector<uint32_t> operands, int32_t items, std::vector<uint32_t> free = {}) {
    DispatchT dispatch;
    dispatch.kernel = kernel;
    dispatch.operands = std::move(operands);
    dispatch.items = items;
    step(std::move(dispatch), std::move(free));
  }
  void reserve(uint32_t cache, uint32_t batch, ReserveMode mode) {
    ReserveT reserve;
    reserve.cache = cache;
    reserve.batch = batch;
    reserve.mode = mode;
    step(std::move(reserve));
  }
  void release(uint32_t cache, uint32_t batch) {
    ReleaseT release;
    release.cache = cache;
    release.batch = batch;
    step(std::move(release));
  }
  void clone(uint32_t source, uint32_t result) {
    CloneT clone;
    clone.source = source;
    clone.result = result;
    step(std::move(clone));
  }
  void fork(uint32_t cache, int32_t source, int32_t destination) {
    ForkT fork;
    fork.cache = cache;
    fork.source = source;
    fork.destination = destination;
    step(std::move(fork));
  }

  void finish(PlanT &plan) { plan.functions.push_back(std::make_unique<FunctionT>(std::move(function))); }

private:
  template <typename T> uint32_t add(T content) {
    auto value = std::make_unique<ValueT>();
    value->type.Set(std::move(content));
    function.values.push_back(std::move(value));
    return uint32_t(function.values.size() - 1);
  }
  template <typename T> void step(T content, std::vector<uint32_t> free = {}) {
    auto step = std::make_unique<StepT>();
    step->action.Set(std::move(content));
    step->free = std::move(free);
    function.steps.push_back(std::move(step));
  }
  void port(std::vector<std::unique_ptr<PortT>> &ports, std::string name, uint32_t value) {
    auto port = std::make_unique<PortT>();
    port->name = std::move(name);
    port->value = value;
    ports.push_back(std::move(port));
  }

  FunctionT function;
};

using Dims = std::vector<Dim>;
constexpr DType f32 = DType::f32;

// scale(x: tensor<?xf32>, factor: f32) -> tensor<?xf32>
// guarded, of the same type: as scale, but its second kernel fails where x[0] < 0
void addScale(PlanT &plan, const char *name, bool isGuarded) {
  Builder b(name);
  uint32_t x = b.tensor(TensorSource::argument, f32, {b.dynamic()});
  uint32_t factor = b.scalar(f32);
  int32_t n = b.node(ExprOp::dim, x, 0);
  uint32_t y = b.tensor(TensorSource::buffer, f32, {b.dynamic(n)});
  b.argument("x", x);
  b.argument("factor", factor);
  b.dispatch(scale, {x, factor, y}, b.node(ExprOp::ceildiv, n, b.constant(64)));
  if (isGuarded) {
    b.dispatch(trapNegative, {x}, b.constant(1));
  }
  b.result(y);
  b.finish(plan);
}

// chain(x: tensor<?xf32>) -> (8 x, second half of 4 x, 4 x): buffers, views, freeing
void addChain(PlanT &plan) {
  Builder b("chain");
  uint32_t x = b.tensor(TensorSource::argument, f32, {b.dynamic()});
  int32_t n = b.node(ExprOp::dim, x, 0);
  int32_t half = b.node(ExprOp::floordiv, n, b.constant(2));
  int32_t rest = b.node(ExprOp::sub, n, half);
  int32_t offset = b.node(ExprOp::mul, half, b.constant(4));
  int32_t items = b.node(ExprOp::ceildiv, n, b.constant(64));
  uint32_t two = b.scalar(f32);
  uint32_t x2 = b.tensor(TensorSource::buffer, f32, {b.dynamic(n)});
  uint32_t x4 = b.tensor(TensorSource::buffer, f32, {b.dynamic(n)});
  uint32_t x8 = b.tensor(TensorSource::buffer, f32, {b.dynamic(n)});
  uint32_t view = b.tensor(TensorSource::view, f32, {b.dynamic(rest)}, x4, offset);
  b.argument("x", x);
  b.argument("two", two);
  b.dispatch(scale, {x, two, x2}, items);
  b.dispatch(scale, {x2, two, x4}, items, {x2});
  b.dispatch(scale, {x4, two, x8}, items);
  b.result(x8);
  b.result(view);
  b.result(x4);
  b.finish(plan);
}

// add(x: tensor<4xf32>) -> x + constant, with scratch
void addConstant(PlanT &plan) {
  Builder b("add_constant");
  uint32_t x = b.tensor(TensorSource::argument, f32, {b.fixed(4)});
  uint32_t y = b.tensor(TensorSource::constant, f32, {b.fixed(4)}, 0);
  uint32_t z = b.tensor(TensorSource::buffer, f32, {b.fixed(4)});
  b.argument("x", x);
  b.dispatch(addScratch, {x, y, z}, b.constant(4));
  b.result(z);
  b.finish(plan);
}

// weight(x: tensor<4xf32>) -> x + the tensor "bias" of a GGUF file
void addWeight(PlanT &plan) {
  Builder b("add_weight");
  uint32_t x = b.tensor(TensorSource::argument, f32, {b.fixed(4)});
  uint32_t y = b.weight("bias", 0, 16, f32, {b.fixed(4)});
  uint32_t z = b.tensor(TensorSource::buffer, f32, {b.fixed(4)});
  b.argument("x", x);
  b.dispatch(addScratch, {x, y, z}, b.constant(4));
  b.result(z);
  b.finish(plan);
}

// scalars(i: i64, j: i32, f: f32) -> (tensor<3xf64>, i + j: i64, f)
void addScalars(PlanT &plan) {
  Builder b("scalars");
  uint32_t i = b.scalar(DType::i64), j = b.scalar(DType::i32), f = b.scalar(f32);
  uint32_t out = b.tensor(TensorSource::buffer, DType::f64, {b.fixed(3)});
  int32_t sum = b.node(ExprOp::add, b.node(ExprOp::scalar, i), b.node(ExprOp::scalar, j));
  uint32_t total = b.scalar(DType::i64, sum);
  b.argument("i", i);
  b.argument("j", j);
  b.argument("f", f);
  b.dispatch(scalars, {i, j, f, out}, b.constant(1));
  b.result(out);
  b.result(total);
  b.result(f);
  b.finish(plan);
}

// sized(sizes: tensor<?xi32>) -> tensor<?x?xi8> of shape [sizes[0], sizes[1]]
void addSized(PlanT &plan) {
  Builder b("sized");
  uint32_t sizes = b.tensor(TensorSource::argument, DType::i32, {b.dynamic()});
  int32_t first = b.node(ExprOp::element, sizes, b.constant(0));
  int32_t second = b.node(ExprOp::element, sizes, b.constant(1));
  uint32_t out = b.tensor(TensorSource::buffer, DType::i8, {b.dynamic(first), b.dynamic(second)});
  b.argument("sizes", sizes);
  b.result(out);
  b.finish(plan);
}

struct CacheKernels {
  std::string suffix;
  uint32_t spec;
  KernelIndex append, sum, keep;
};

// append(cache, batch, rows: tensor<?x4xf32>) -> cache
void addAppend(PlanT &plan, const CacheKernels &kernels) {
  Builder b("append" + kernels.suffix);
  uint32_t cache = b.cache(kernels.spec), batch = b.batch();
  uint32_t rows = b.tensor(TensorSource::argument, f32, {b.dynamic(b.node(ExprOp::rows, batch)), b.fixed(4)});
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.argument("rows", rows);
  b.reserve(cache, batch, ReserveMode::append);
  b.dispatch(kernels.append, {cache, batch, rows}, b.node(ExprOp::entries, batch));
  b.result(cache);
  b.finish(plan);
}

// sum(cache, batch) -> tensor<?xf32>
void addSum(PlanT &plan, const CacheKernels &kernels) {
  Builder b("sum" + kernels.suffix);
  uint32_t cache = b.cache(kernels.spec), batch = b.batch();
  int32_t entries = b.node(ExprOp::entries, batch);
  uint32_t out = b.tensor(TensorSource::buffer, f32, {b.dynamic(entries)});
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.dispatch(kernels.sum, {cache, batch, out}, entries);
  b.result(out);
  b.finish(plan);
}

// keep(cache, batch, slots: i64) -> cache; where slots are sealed (a truncate function): slots: tensor<1xi32>
void addKeep(PlanT &plan, const CacheKernels &kernels) {
  Builder b("keep" + kernels.suffix);
  uint32_t cache = b.cache(kernels.spec), batch = b.batch();
  uint32_t slots =
      kernels.spec == 0 ? b.scalar(DType::i64) : b.tensor(TensorSource::argument, DType::i32, {b.fixed(1)});
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.argument("slots", slots);
  b.reserve(cache, batch, ReserveMode::rewrite);
  b.dispatch(kernels.keep, {cache, batch, slots}, b.node(ExprOp::entries, batch));
  b.release(cache, batch);
  b.result(cache);
  b.finish(plan);
}

// layers(first: cache, second: cache, batch, rows) -> (cache, cache, sum of both)
void addLayers(PlanT &plan) {
  Builder b("layers");
  uint32_t first = b.cache(0), second = b.cache(0), batch = b.batch();
  uint32_t rows = b.tensor(TensorSource::argument, f32, {b.dynamic(b.node(ExprOp::rows, batch)), b.fixed(4)});
  int32_t entries = b.node(ExprOp::entries, batch);
  uint32_t out = b.tensor(TensorSource::buffer, f32, {b.dynamic(entries)});
  b.argument("first", first);
  b.argument("second", second);
  b.argument("batch", batch);
  b.argument("rows", rows);
  for (uint32_t cache : {first, second}) {
    b.reserve(cache, batch, ReserveMode::append);
    b.dispatch(appendPlain, {cache, batch, rows}, entries);
  }
  b.dispatch(sumPlain, {second, batch, out}, entries);
  b.result(first);
  b.result(second);
  b.result(out);
  b.finish(plan);
}

// append_sum(cache, batch, rows) -> (cache, sum): the items of the second kernel depend on the lengths after the first
void addAppendSum(PlanT &plan) {
  Builder b("append_sum");
  uint32_t cache = b.cache(0), batch = b.batch();
  uint32_t rows = b.tensor(TensorSource::argument, f32, {b.dynamic(b.node(ExprOp::rows, batch)), b.fixed(4)});
  int32_t entries = b.node(ExprOp::entries, batch), longest = b.node(ExprOp::max_length, cache, batch);
  uint32_t out = b.tensor(TensorSource::buffer, f32, {b.dynamic(entries)});
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.argument("rows", rows);
  b.reserve(cache, batch, ReserveMode::append);
  b.dispatch(appendPlain, {cache, batch, rows}, entries);
  b.dispatch(sumPlain, {cache, batch, out}, b.node(ExprOp::min, entries, longest));
  b.result(cache);
  b.result(out);
  b.finish(plan);
}

// count_rows(batch) -> (entries, rows, most of an entry, entries with one): i64
void addCountRows(PlanT &plan) {
  Builder b("count_rows");
  uint32_t batch = b.batch();
  b.argument("batch", batch);
  for (ExprOp count : {ExprOp::entries, ExprOp::rows, ExprOp::max_rows, ExprOp::single_rows}) {
    b.result(b.scalar(DType::i64, b.node(count, batch)));
  }
  b.finish(plan);
}

// replace(cache, batch, rows, slots: i64) -> (cache, its longest table): appends and cuts, as what writes a ring does
void addReplace(PlanT &plan) {
  Builder b("replace");
  uint32_t cache = b.cache(0), batch = b.batch();
  uint32_t rows = b.tensor(TensorSource::argument, f32, {b.dynamic(b.node(ExprOp::rows, batch)), b.fixed(4)});
  uint32_t slots = b.scalar(DType::i64);
  int32_t entries = b.node(ExprOp::entries, batch);
  uint32_t longest = b.scalar(DType::i64, b.node(ExprOp::max_length, cache, batch));
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.argument("rows", rows);
  b.argument("slots", slots);
  b.reserve(cache, batch, ReserveMode::rewrite);
  b.reserve(cache, batch, ReserveMode::append);
  b.dispatch(appendPlain, {cache, batch, rows}, entries);
  b.dispatch(keepPlain, {cache, batch, slots}, entries);
  b.result(cache);
  b.result(longest);
  b.finish(plan);
}

// keep_old(cache, batch, rows) -> (the cache with rows, the cache as it was, longest after, longest before)
void addKeepOld(PlanT &plan) {
  Builder b("keep_old");
  uint32_t cache = b.cache(0), old = b.cache(0), batch = b.batch();
  uint32_t rows = b.tensor(TensorSource::argument, f32, {b.dynamic(b.node(ExprOp::rows, batch)), b.fixed(4)});
  uint32_t after = b.scalar(DType::i64, b.node(ExprOp::max_length, cache, batch));
  uint32_t before = b.scalar(DType::i64, b.node(ExprOp::max_length, old, batch));
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.argument("rows", rows);
  b.clone(cache, old);
  b.reserve(cache, batch, ReserveMode::append);
  b.dispatch(appendPlain, {cache, batch, rows}, b.node(ExprOp::entries, batch));
  b.result(cache);
  b.result(old);
  b.result(after);
  b.result(before);
  b.finish(plan);
}

// fork(cache, source: i64, destination: i64) -> cache
void addFork(PlanT &plan) {
  Builder b("fork");
  uint32_t cache = b.cache(0), source = b.scalar(DType::i64), destination = b.scalar(DType::i64);
  b.argument("cache", cache);
  b.argument("source", source);
  b.argument("destination", destination);
  b.fork(cache, b.node(ExprOp::scalar, source), b.node(ExprOp::scalar, destination));
  b.result(cache);
  b.finish(plan);
}

// broken(cache, batch) -> cache: a kernel that writes a bad length
void addBroken(PlanT &plan) {
  Builder b("broken");
  uint32_t cache = b.cache(0), batch = b.batch();
  b.argument("cache", cache);
  b.argument("batch", batch);
  b.reserve(cache, batch, ReserveMode::rewrite);
  b.dispatch(breakLength, {cache, batch}, b.node(ExprOp::entries, batch));
  b.release(cache, batch);
  b.result(cache);
  b.finish(plan);
}

/// A file of the build. On another machine the variable KVC_TEST_FILES names the folder of a copy.
std::vector<uint8_t> contents(std::string path) {
  if (const char *folder = std::getenv("KVC_TEST_FILES")) {
    path = std::string(folder) + path.substr(path.rfind('/'));
  }
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.empty()) {
    throw std::runtime_error("cannot read " + path);
  }
  return bytes;
}

/// A target with the kernels and the layouts of the caches, without code.
std::unique_ptr<TargetT> targetFor(const ModuleT &module, std::string name) {
  auto target = std::make_unique<TargetT>();
  target->name = std::move(name);
  for (const char *kernelName : kernelNames) {
    auto kernel = std::make_unique<KernelT>();
    kernel->name = kernelName;
    kernel->scratch_bytes = std::string_view(kernelName) == "add_scratch" ? 4096 : 0;
    target->kernels.push_back(std::move(kernel));
  }
  for (const auto &spec : module.caches) {
    auto layout = std::make_unique<CacheLayoutT>();
    bool hasTail = spec->tail_slots > 0;
    layout->page_bytes = 64;
    layout->page_payload_bytes = hasTail ? 16 : 64;
    layout->tail_bytes = hasTail ? 128 : 0;
    layout->tail_slot_payload_bytes = hasTail ? 16 : 0;
    target->layouts.push_back(std::move(layout));
  }
  return target;
}

std::unique_ptr<CacheSpecT> cacheSpec(std::string name, uint32_t tail, std::string truncate) {
  auto spec = std::make_unique<CacheSpecT>();
  spec->name = name;
  spec->type = "!test.cache<" + name + ">";
  spec->kv_heads = 2;
  spec->tables_per_sequence = 1;
  spec->page_slots = 4;
  spec->tail_slots = tail;
  spec->residual = tail / 2;
  spec->seal_group = tail / 2;
  spec->truncate_function = std::move(truncate);
  return spec;
}

} // namespace

fb::ModuleT testModule() {
  ModuleT module;
  module.provenance = "tests of the runtime";
  auto constant = std::make_unique<ConstantT>();
  const float values[4] = {10, 20, 30, 40};
  const auto *bytes = reinterpret_cast<const uint8_t *>(values);
  constant->bytes.assign(bytes, bytes + sizeof(values));
  module.constants.push_back(std::move(constant));
  module.caches.push_back(cacheSpec("plain", 0, ""));
  module.caches.push_back(cacheSpec("sealed", 8, "keep_sealed"));
  module.caches.push_back(cacheSpec("rigid", 8, ""));

  auto plan = std::make_unique<PlanT>();
  addScale(*plan, "scale", false);
  addChain(*plan);
  addConstant(*plan);
  addWeight(*plan);
  addScalars(*plan);
  addSized(*plan);
  for (const CacheKernels &kernels : {CacheKernels{"", 0, appendPlain, sumPlain, keepPlain},
                                      CacheKernels{"_sealed", 1, appendSealed, sumSealed, truncateSealed},
                                      CacheKernels{"_rigid", 2, appendSealed, sumSealed, truncateSealed}}) {
    addAppend(*plan, kernels);
    addSum(*plan, kernels);
    addKeep(*plan, kernels);
  }
  addLayers(*plan);
  addAppendSum(*plan);
  addCountRows(*plan);
  addReplace(*plan);
  addKeepOld(*plan);
  addFork(*plan);
  addBroken(*plan);
  addScale(*plan, "guarded", true);
  module.plans.push_back(std::move(plan));

#if defined(__aarch64__)
  auto cpu = targetFor(module, "aarch64");
#else
  auto cpu = targetFor(module, "x86-64-v3");
#endif
  cpu->code = contents(KVC_TEST_KERNELS);
  module.targets.push_back(std::move(cpu));
#ifdef KVC_TEST_PTX
  auto gpu = targetFor(module, "sm_80");
  const std::vector<uint8_t> ptx = contents(KVC_TEST_PTX);
  gpu->kind = CodeKind::cubin;
  gpu->assembly.assign(ptx.begin(), ptx.end());
#ifdef KVC_TEST_CUBIN
  gpu->code = contents(KVC_TEST_CUBIN);
#else
  gpu->code = ptx; // a driver takes PTX in place of a cubin
  gpu->code.push_back(0);
#endif
  for (auto &kernel : gpu->kernels) {
    kernel->team_lanes = 1;
  }
  module.targets.push_back(std::move(gpu));
#endif
#ifdef KVC_TEST_HSACO
  for (const char *chip : {"gfx942", "gfx1100"}) {
    auto target = targetFor(module, chip);
    target->kind = CodeKind::hsaco;
    target->code = contents((KVC_TEST_HSACO + std::string(chip) + ".hsaco").c_str());
    for (auto &kernel : target->kernels) {
      kernel->team_lanes = 1;
    }
    module.targets.push_back(std::move(target));
  }
#endif
  return module;
}

std::vector<uint8_t> pack(const fb::ModuleT &module) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishModuleBuffer(builder, fb::Module::Pack(builder, &module));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

std::vector<uint8_t> sealed(const fb::ModuleT &module) {
  Result<std::vector<uint8_t>> bytes = artifact::seal(pack(module));
  if (!bytes.ok()) {
    throw std::runtime_error(bytes.message());
  }
  return *std::move(bytes);
}

} // namespace kvc::test

//===- Executor.cpp - Runs a function of a module -------------------------===//
//
// One Call object per call: the state of every value, and the walk over the
// steps.
//
//===----------------------------------------------------------------------===//
#include "core/Executor.h"
#include "core/Arithmetic.h"
#include "core/Lengths.h"
#include "core/PendingWork.h"
#include "core/SizeClass.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

namespace kvc::rt {
namespace {

constexpr uint64_t maxTensorBytes = uint64_t(1) << 40;

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }

Status invalid(std::string message) { return Status(StatusCode::invalidArgument, std::move(message)); }

const char *nameOf(Argument::Kind kind) {
  switch (kind) {
  case Argument::Kind::tensor:
    return "a tensor";
  case Argument::Kind::cache:
    return "a cache";
  case Argument::Kind::batch:
    return "a batch";
  case Argument::Kind::integer:
    return "an integer";
  case Argument::Kind::real:
    return "a real number";
  }
  return "?";
}

uint64_t wordOf(const void *pointer) { return uint64_t(reinterpret_cast<uintptr_t>(pointer)); }

class Call {
public:
  Call(const std::shared_ptr<Module> &module, const fb::Function &function, bool mayRoundLengths)
      : module(module), device(*module->device()), function(function), weights(module->weights()),
        values(sizeOfVector(function.values())), memo(sizeOfVector(function.exprs())),
        memoStep(sizeOfVector(function.exprs()), 0), queues(device.usesGraphs() && !device.profile().isOn()),
        roundsLengths(queues && mayRoundLengths), pending(device, module->code(), queues) {}

  Status run(const std::vector<Argument> &arguments, std::vector<CallResult> &results) {
    KVC_RETURN_IF_ERROR(bindArguments(arguments));
    KVC_RETURN_IF_ERROR(lockCaches());
    KVC_RETURN_IF_ERROR(checkBeforeChange());
    Status status = runSteps(results);
    if (!status.ok()) {
      // Nothing of the call may run on when its memory goes; what a kernel reports now has a cause that is known.
      pending.drop();
      (void)pending.waitForAll();
    }
    if (!status.ok() && changed) {
      for (const std::shared_ptr<Cache> &cache : caches) {
        for (const std::shared_ptr<Batch> &batch : batches) {
          cache->markBrokenLocked(*batch);
        }
      }
    }
    // Clones and created caches that did not become results give their pages back under the lock.
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].isOwned && values[i].cache) {
        if (values[i].cache.use_count() == 1) {
          values[i].cache->disposeLocked();
        }
        values[i].cache.reset();
      }
    }
    return status;
  }

private:
  struct State {
    const void *address = nullptr;
    std::vector<int64_t> dims;
    bool bound = false; // address and dims are set
    Temporary buffer;
    std::shared_ptr<Cache> cache;
    bool isOwned = false; // a clone or a created cache
    std::shared_ptr<Batch> batch;
    int64_t word = 0; // scalars
  };

  const fb::Value &value(size_t index) const { return *function.values()->Get(index); }

  // --- Arguments -----------------------------------------------------------

  std::string portName(size_t index) const {
    std::string_view name = Module::viewOf(function.arguments()->Get(index)->name());
    return name.empty() ? fmt::format("argument {}", index) : fmt::format("argument {} ('{}')", index, name);
  }

  Status bindArguments(const std::vector<Argument> &arguments) {
    size_t count = sizeOfVector(function.arguments());
    if (arguments.size() != count) {
      return invalid(fmt::format("expects {} arguments, but got {}", count, arguments.size()));
    }
    for (size_t i = 0; i < count; ++i) {
      if (Status status = bindArgument(function.arguments()->Get(i)->value(), arguments[i]); !status.ok()) {
        return std::move(status).withContext(portName(i));
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const fb::Tensor *tensor = value(i).type_as_Tensor();
      if (!tensor) {
        continue;
      }
      if (tensor->source() == fb::TensorSource::constant) {
        bindStatic(i, *tensor, module->constant(size_t(tensor->constant())));
      } else if (tensor->source() == fb::TensorSource::weight) {
        if (!weights) {
          return invalid(fmt::format("expects weights (tensor '{}'): bind a model file to the module first",
                                     tensor->weight()->str()));
        }
        bindStatic(i, *tensor, weights->addresses.at(tensor->weight()->str()));
      }
    }
    return {};
  }

  void bindStatic(size_t index, const fb::Tensor &tensor, const void *address) {
    State &state = values[index];
    state.address = address;
    for (size_t axis = 0; axis < sizeOfVector(tensor.dims()); ++axis) {
      state.dims.push_back(tensor.dims()->Get(axis)->size());
    }
    state.bound = true;
  }

  Status expectKind(const Argument &argument, Argument::Kind kind) {
    return argument.kind == kind ? Status()
                                 : invalid(fmt::format("expects {}, but got {}", nameOf(kind), nameOf(argument.kind)));
  }

  Status bindArgument(size_t index, const Argument &argument) {
    State &state = values[index];
    switch (value(index).type_type()) {
    case fb::ValueType::Tensor:
      KVC_RETURN_IF_ERROR(expectKind(argument, Argument::Kind::tensor));
      return bindTensor(*value(index).type_as_Tensor(), argument, state);
    case fb::ValueType::Cache: {
      KVC_RETURN_IF_ERROR(expectKind(argument, Argument::Kind::cache));
      // Specs are compared by what they say: a cache may come from another
      // module that was compiled for the same type.
      const CacheSpec &want = *module->cacheSpecs()[value(index).type_as_Cache()->spec()];
      const CacheSpec &got = argument.cache->spec();
      if (got.type != want.type || got.pageBytes != want.pageBytes || got.tailBytes != want.tailBytes ||
          got.tablesPerSequence != want.tablesPerSequence || got.pageSlots != want.pageSlots ||
          got.tailSlots != want.tailSlots) {
        return invalid(fmt::format("expects a cache of type {}, but got {}", want.type, got.type));
      }
      if (argument.cache->device() != module->device()) {
        return invalid("expects a cache on the device of the module, but got one on another");
      }
      if (std::find(caches.begin(), caches.end(), argument.cache) != caches.end()) {
        return invalid("expects a cache of its own, but got one that another argument has too");
      }
      state.cache = argument.cache;
      caches.push_back(argument.cache);
      return {};
    }
    case fb::ValueType::Batch:
      KVC_RETURN_IF_ERROR(expectKind(argument, Argument::Kind::batch));
      state.batch = argument.batch;
      batches.push_back(argument.batch);
      return {};
    case fb::ValueType::Scalar: {
      fb::DType dtype = value(index).type_as_Scalar()->dtype();
      if (dtype == fb::DType::f32) {
        KVC_RETURN_IF_ERROR(expectKind(argument, Argument::Kind::real));
        uint32_t bits;
        std::memcpy(&bits, &argument.real, sizeof(bits));
        state.word = int64_t(bits);
        return {};
      }
      KVC_RETURN_IF_ERROR(expectKind(argument, Argument::Kind::integer));
      if (dtype == fb::DType::i32 && argument.integer != int32_t(argument.integer)) {
        return Status(StatusCode::outOfRange, fmt::format("expects an i32, but got {}", argument.integer));
      }
      state.word = argument.integer;
      return {};
    }
    default:
      return Status(StatusCode::internal, "expects a verified value kind");
    }
  }

  Status bindTensor(const fb::Tensor &tensor, const Argument &argument, State &state) {
    size_t rank = sizeOfVector(tensor.dims());
    if (argument.dtype != tensor.dtype()) {
      return invalid(fmt::format("expects elements of type {}, but got {}", artifact::nameOf(tensor.dtype()),
                                 artifact::nameOf(argument.dtype)));
    }
    if (argument.dims.size() != rank) {
      return invalid(fmt::format("expects rank {}, but got shape [{}]", rank, fmt::join(argument.dims, ", ")));
    }
    for (size_t axis = 0; axis < rank; ++axis) {
      int64_t want = tensor.dims()->Get(axis)->size(), got = argument.dims[axis];
      if (got < 0 || (want >= 0 && got != want)) {
        return invalid(fmt::format("expects size {} in dimension {}, but got shape [{}]",
                                   want >= 0 ? std::to_string(want) : "0 or more", axis,
                                   fmt::join(argument.dims, ", ")));
      }
    }
    KVC_ASSIGN_OR_RETURN(uint64_t bytes, bytesOf(tensor, argument.dims));
    if (bytes > 0 && !argument.data) {
      return invalid(fmt::format("expects {} bytes of data, but got a null pointer", bytes));
    }
    state.address = argument.data;
    bool isAligned = uintptr_t(argument.data) % artifact::sizeOf(tensor.dtype()) == 0;
    if (!device.isHostMemory() || !isAligned || bytes == 0) {
      KVC_ASSIGN_OR_RETURN(state.buffer, allocateTemporary(bytes));
      KVC_RETURN_IF_ERROR(device.enqueueCopyToDevice(state.buffer.data(), argument.data, bytes));
      state.address = state.buffer.data();
    }
    hostData[&tensor] = argument.data;
    state.dims = argument.dims;
    state.bound = true;
    return {};
  }

  Result<uint64_t> bytesOf(const fb::Tensor &tensor, const std::vector<int64_t> &dims) const {
    uint64_t bytes = artifact::sizeOf(tensor.dtype());
    bool isEmpty = std::find(dims.begin(), dims.end(), 0) != dims.end();
    for (int64_t dim : dims) {
      if (dim < 0) {
        return invalid(fmt::format("expects sizes that are not negative, but got shape [{}]", fmt::join(dims, ", ")));
      }
      if (!isEmpty && (__builtin_mul_overflow(bytes, uint64_t(dim), &bytes) || bytes > maxTensorBytes)) {
        return Status(StatusCode::outOfRange, fmt::format("expects a tensor of at most {} bytes, but got shape [{}]",
                                                          maxTensorBytes, fmt::join(dims, ", ")));
      }
    }
    return isEmpty ? 0 : bytes;
  }

  Status lockCaches() {
    std::set<CachePool *> pools;
    for (const std::shared_ptr<Cache> &cache : caches) {
      pools.insert(&cache->pool());
    }
    // In the order of their addresses, as every call does: no deadlock.
    for (CachePool *pool : pools) {
      locks.emplace_back(pool->mutex);
    }
    return {};
  }

  Status checkBeforeChange() {
    nextStep();
    for (size_t i = 0; i < sizeOfVector(function.arguments()); ++i) {
      size_t index = function.arguments()->Get(i)->value();
      const fb::Tensor *tensor = value(index).type_as_Tensor();
      for (size_t axis = 0; tensor && axis < sizeOfVector(tensor->dims()); ++axis) {
        const fb::Dim &dim = *tensor->dims()->Get(axis);
        if (dim.size() >= 0 || dim.expr() == -1) {
          continue;
        }
        KVC_ASSIGN_OR_RETURN(int64_t want, evaluate(dim.expr()));
        if (values[index].dims[axis] != want) {
          return invalid(fmt::format("{}: expects size {} in dimension {}, but got shape [{}]", portName(i), want, axis,
                                     fmt::join(values[index].dims, ", ")));
        }
      }
    }
    for (const std::shared_ptr<Cache> &cache : caches) {
      for (const std::shared_ptr<Batch> &batch : batches) {
        KVC_RETURN_IF_ERROR(cache->checkBatchLocked(*batch));
      }
    }
    KVC_RETURN_IF_ERROR(runChecks(0));
    // An exhausted pool must show before the first layer has appended.
    std::set<uint32_t> seen;
    for (size_t i = 0; i < sizeOfVector(function.steps()); ++i) {
      const fb::Reserve *reserve = function.steps()->Get(i)->action_as_Reserve();
      if (!reserve || !values[reserve->cache()].cache || !seen.insert(reserve->cache()).second) {
        continue;
      }
      const Cache &cache = *values[reserve->cache()].cache;
      const Batch &batch = *values[reserve->batch()].batch;
      KVC_RETURN_IF_ERROR(reserve->mode() == fb::ReserveMode::append ? cache.checkAppendLocked(batch)
                                                                     : cache.checkRewriteLocked(batch));
    }
    return {};
  }

  /// Makes the checks that stand before a step.
  Status runChecks(size_t step) {
    for (; nextCheck < sizeOfVector(function.checks()); ++nextCheck) {
      const fb::Check &check = *function.checks()->Get(nextCheck);
      if (check.step() > step) {
        break;
      }
      KVC_ASSIGN_OR_RETURN(int64_t got, evaluate(check.left()));
      KVC_ASSIGN_OR_RETURN(int64_t want, evaluate(check.right()));
      bool isEqual = check.relation() == fb::Relation::equal;
      if (isEqual ? got != want : got < want) {
        return invalid(describe(check, fmt::format("{}{}", isEqual ? "" : "at least ", want), got));
      }
    }
    return {};
  }

  std::string describe(const fb::Check &check, const std::string &want, int64_t got) const {
    std::string_view text = Module::viewOf(check.text());
    const fb::Expr &left = *function.exprs()->Get(check.left());
    for (size_t i = 0; left.op() == fb::ExprOp::dim && i < sizeOfVector(function.arguments()); ++i) {
      if (function.arguments()->Get(i)->value() == uint32_t(left.a())) {
        return fmt::format("{}: expects size {} in dimension {}, but got shape [{}] ({})", portName(i), want, left.b(),
                           fmt::join(values[size_t(left.a())].dims, ", "), text);
      }
    }
    return fmt::format("{}: expects size {}, but got {}", text, want, got);
  }

  // --- Expressions ---------------------------------------------------------

  void nextStep() { ++stepNumber; }

  Result<int64_t> evaluate(int32_t node) {
    if (memoStep[size_t(node)] == stepNumber) {
      return memo[size_t(node)];
    }
    Result<int64_t> result = evaluateNode(*function.exprs()->Get(node));
    if (!result.ok()) {
      return result;
    }
    memo[size_t(node)] = *result;
    memoStep[size_t(node)] = stepNumber;
    return result;
  }

  Result<int64_t> evaluateNode(const fb::Expr &expr) {
    switch (expr.op()) {
    case fb::ExprOp::constant:
      return expr.value();
    case fb::ExprOp::add:
    case fb::ExprOp::sub:
    case fb::ExprOp::mul:
    case fb::ExprOp::ceildiv:
    case fb::ExprOp::floordiv:
    case fb::ExprOp::min:
    case fb::ExprOp::max: {
      KVC_ASSIGN_OR_RETURN(int64_t a, evaluate(expr.a()));
      KVC_ASSIGN_OR_RETURN(int64_t b, evaluate(expr.b()));
      return evaluateArithmetic(expr.op(), a, b);
    }
    case fb::ExprOp::dim: {
      const State &state = values[size_t(expr.a())];
      if (state.bound) {
        return state.dims[size_t(expr.b())];
      }
      const fb::Dim &dim = *value(size_t(expr.a())).type_as_Tensor()->dims()->Get(expr.b());
      return dim.size() >= 0 ? Result<int64_t>(dim.size()) : evaluate(dim.expr());
    }
    case fb::ExprOp::scalar:
      return scalarWord(size_t(expr.a()));
    case fb::ExprOp::element: {
      KVC_ASSIGN_OR_RETURN(int64_t index, evaluate(expr.b()));
      return element(size_t(expr.a()), index);
    }
    case fb::ExprOp::processors:
      return device.processors();
    case fb::ExprOp::entries:
      return int64_t(values[size_t(expr.a())].batch->entries());
    case fb::ExprOp::rows:
      return int64_t(values[size_t(expr.a())].batch->rows());
    case fb::ExprOp::max_rows:
      return int64_t(values[size_t(expr.a())].batch->maxRows());
    case fb::ExprOp::single_rows:
      return int64_t(values[size_t(expr.a())].batch->singleRows());
    case fb::ExprOp::tables:
    case fb::ExprOp::max_pages:
    case fb::ExprOp::max_length: {
      const Cache *cache = values[size_t(expr.a())].cache.get();
      if (!cache) {
        return Status(StatusCode::corrupt, "an expression reads a cache before it is cloned or after it was freed");
      }
      if (expr.op() == fb::ExprOp::tables) {
        return cache->tables();
      }
      if (expr.op() == fb::ExprOp::max_pages) {
        return cache->maxPages();
      }
      KVC_ASSIGN_OR_RETURN(int64_t length, pending.maxLength(*cache, *values[size_t(expr.b())].batch));
      return roundsLengths ? roundUpLength(length, cache->maxLength()) : length;
    }
    }
    return Status(StatusCode::internal, "expects a verified expression");
  }

  Result<int64_t> scalarWord(size_t index) {
    const fb::Scalar &scalar = *value(index).type_as_Scalar();
    return scalar.expr() == -1 ? Result<int64_t>(values[index].word) : evaluate(scalar.expr());
  }

  Result<int64_t> element(size_t index, int64_t at) {
    const fb::Tensor &tensor = *value(index).type_as_Tensor();
    const State &state = values[index];
    KVC_ASSIGN_OR_RETURN(uint64_t bytes, bytesOf(tensor, state.dims));
    uint64_t size = artifact::sizeOf(tensor.dtype());
    if (at < 0 || uint64_t(at) >= bytes / size) {
      return Status(StatusCode::outOfRange, fmt::format("a size expression reads element {} of a tensor of shape [{}]",
                                                        at, fmt::join(state.dims, ", ")));
    }
    uint8_t element[8];
    auto it = hostData.find(&tensor);
    if (it != hostData.end()) {
      std::memcpy(element, static_cast<const uint8_t *>(it->second) + uint64_t(at) * size, size);
    } else {
      KVC_RETURN_IF_ERROR(pending.flush());
      KVC_RETURN_IF_ERROR(
          device.copyToHost(element, static_cast<const uint8_t *>(state.address) + uint64_t(at) * size, size));
    }
    int32_t narrow;
    int64_t wide;
    std::memcpy(&narrow, element, sizeof(narrow));
    std::memcpy(&wide, element, sizeof(wide));
    return tensor.dtype() == fb::DType::i32 ? narrow : wide;
  }

  // --- Tensors -------------------------------------------------------------

  Result<std::vector<int64_t>> evaluateDims(const fb::Tensor &tensor) {
    std::vector<int64_t> dims(sizeOfVector(tensor.dims()));
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const fb::Dim &dim = *tensor.dims()->Get(axis);
      dims[axis] = dim.size();
      if (dim.size() < 0) {
        KVC_ASSIGN_OR_RETURN(dims[axis], evaluate(dim.expr()));
      }
    }
    return dims;
  }

  Result<Temporary> allocateTemporary(uint64_t bytes) {
    const uint64_t size = sizeClass(bytes);
    if (auto it = freed.lower_bound({size, nullptr}); it != freed.end() && it->first.first == size) {
      Temporary taken = std::move(it->second);
      freed.erase(it);
      return taken;
    }
    return module->temporaries().allocate(bytes);
  }

  /// Gives a tensor an address: allocates buffers, resolves views.
  Status bind(size_t index) {
    State &state = values[index];
    const fb::Tensor &tensor = *value(index).type_as_Tensor();
    bool isView = tensor.source() == fb::TensorSource::view;
    // A view is resolved each time: its offset may have changed.
    if (state.bound && !isView) {
      return {};
    }
    KVC_ASSIGN_OR_RETURN(state.dims, evaluateDims(tensor));
    KVC_ASSIGN_OR_RETURN(uint64_t bytes, bytesOf(tensor, state.dims));
    if (!isView) {
      KVC_ASSIGN_OR_RETURN(state.buffer, allocateTemporary(bytes));
      state.address = state.buffer.data();
      state.bound = true;
      return {};
    }
    size_t base = size_t(tensor.base());
    KVC_RETURN_IF_ERROR(bind(base));
    KVC_ASSIGN_OR_RETURN(uint64_t available, bytesOf(*value(base).type_as_Tensor(), values[base].dims));
    int64_t offset = 0;
    if (tensor.offset() != -1) {
      KVC_ASSIGN_OR_RETURN(offset, evaluate(tensor.offset()));
    }
    if (offset < 0 || uint64_t(offset) > available || bytes > available - uint64_t(offset)) {
      return Status(StatusCode::outOfRange,
                    fmt::format("a view of {} bytes at offset {} does not fit a tensor of shape [{}]", bytes, offset,
                                fmt::join(values[base].dims, ", ")));
    }
    state.address = static_cast<const uint8_t *>(values[base].address) + offset;
    state.bound = true;
    return {};
  }

  Status appendWords(size_t index) {
    State &state = values[index];
    switch (value(index).type_type()) {
    case fb::ValueType::Tensor: {
      KVC_RETURN_IF_ERROR(bind(index));
      words.push_back(wordOf(state.address));
      const fb::Tensor &tensor = *value(index).type_as_Tensor();
      for (size_t axis = 0; axis < state.dims.size(); ++axis) {
        if (tensor.dims()->Get(axis)->size() < 0) {
          words.push_back(uint64_t(state.dims[axis]));
        }
      }
      return {};
    }
    case fb::ValueType::Cache:
      state.cache->appendWords(words);
      return {};
    case fb::ValueType::Batch:
      words.insert(words.end(), {wordOf(state.batch->queryOffsets()), uint64_t(state.batch->entries()) + 1,
                                 wordOf(state.batch->sequences()), uint64_t(state.batch->entries()),
                                 wordOf(state.batch->positions()), uint64_t(state.batch->rows())});
      return {};
    default: {
      KVC_ASSIGN_OR_RETURN(int64_t word, scalarWord(index));
      words.push_back(uint64_t(word));
      return {};
    }
    }
  }

  // --- Steps ---------------------------------------------------------------

  Status runSteps(std::vector<CallResult> &results) {
    for (size_t i = 0; i < sizeOfVector(function.steps()); ++i) {
      nextStep();
      const fb::Step &step = *function.steps()->Get(i);
      KVC_RETURN_IF_ERROR(runChecks(i));
      if (Status status = runStep(step); !status.ok()) {
        return std::move(status).withContext(fmt::format("step {}", i));
      }
      for (size_t k = 0; k < sizeOfVector(step.free()); ++k) {
        KVC_RETURN_IF_ERROR(freeValue(step.free()->Get(k)));
      }
    }
    // Elsewhere results are copied behind the kernels: one wait for all of them.
    KVC_RETURN_IF_ERROR(device.isHostMemory() ? pending.waitForAll() : pending.flush());
    nextStep();
    for (size_t i = 0; i < sizeOfVector(function.results()); ++i) {
      if (Status status = takeResult(function.results()->Get(i)->value(), results); !status.ok()) {
        return std::move(status).withContext(fmt::format("result {}", i));
      }
    }
    return pending.waitForAll();
  }

  Status freeValue(size_t index) {
    State &state = values[index];
    if (state.cache) {
      KVC_RETURN_IF_ERROR(pending.waitFor(*state.cache));
      state.cache->disposeLocked();
      state.cache.reset();
    }
    // Whoever gets the buffer next is launched behind the kernels that use it now. Those that are kept are not launched
    // yet: until then it is for this call alone.
    if (queues && state.buffer) {
      const std::pair<uint64_t, const void *> key(state.buffer.bytes(), state.buffer.data());
      freed.emplace(key, std::move(state.buffer));
    }
    state.buffer = Temporary();
    return {};
  }

  Status runStep(const fb::Step &step) {
    switch (step.action_type()) {
    case fb::Action::Dispatch:
      return dispatch(*step.action_as_Dispatch());
    case fb::Action::Reserve: {
      const fb::Reserve &reserve = *step.action_as_Reserve();
      Cache &cache = *values[reserve.cache()].cache;
      const Batch &batch = *values[reserve.batch()].batch;
      KVC_RETURN_IF_ERROR(pending.waitFor(cache));
      KVC_RETURN_IF_ERROR(runReserve(reserve, cache, batch));
      // A reservation that fails has at most replaced shared pages by copies.
      changed = true;
      return {};
    }
    case fb::Action::Release: {
      Cache &cache = *values[step.action_as_Release()->cache()].cache;
      KVC_RETURN_IF_ERROR(pending.waitFor(cache));
      changed = true;
      return cache.releaseLocked(*values[step.action_as_Release()->batch()].batch);
    }
    case fb::Action::Clone: {
      const fb::Clone &clone = *step.action_as_Clone();
      KVC_RETURN_IF_ERROR(pending.waitFor(*values[clone.source()].cache));
      KVC_ASSIGN_OR_RETURN(values[clone.result()].cache, values[clone.source()].cache->cloneLocked());
      values[clone.result()].isOwned = true;
      return {};
    }
    case fb::Action::Create: {
      const fb::Create &create = *step.action_as_Create();
      const std::shared_ptr<const CacheSpec> &spec =
          module->cacheSpecs()[value(create.result()).type_as_Cache()->spec()];
      KVC_RETURN_IF_ERROR(pending.waitFor(*values[create.source()].cache));
      KVC_ASSIGN_OR_RETURN(values[create.result()].cache,
                           values[create.source()].cache->createLikeLocked(spec, *values[create.batch()].batch));
      values[create.result()].isOwned = true;
      return {};
    }
    case fb::Action::Fork: {
      const fb::Fork &fork = *step.action_as_Fork();
      KVC_RETURN_IF_ERROR(pending.waitFor(*values[fork.cache()].cache));
      KVC_ASSIGN_OR_RETURN(int64_t source, evaluate(fork.source()));
      KVC_ASSIGN_OR_RETURN(int64_t destination, evaluate(fork.destination()));
      if (source == destination) {
        // In a plan, unlike for a user, that is a sequence like any other.
        return source < 0 || source >= values[fork.cache()].cache->sequences()
                   ? Status(StatusCode::outOfRange, fmt::format("expects a fork of a sequence from 0 to {}, but got {}",
                                                                values[fork.cache()].cache->sequences() - 1, source))
                   : Status();
      }
      changed = true;
      return values[fork.cache()].cache->forkLocked(source, destination);
    }
    default:
      return Status(StatusCode::internal, "expects a verified step");
    }
  }

  Status runReserve(const fb::Reserve &reserve, Cache &cache, const Batch &batch) {
    switch (reserve.mode()) {
    case fb::ReserveMode::append:
      KVC_RETURN_IF_ERROR(cache.reserveAppendLocked(batch));
      pending.noteAppend(cache, batch);
      return {};
    case fb::ReserveMode::rewrite:
      pending.noteRewrite(cache);
      return cache.reserveRewriteLocked(batch);
    case fb::ReserveMode::lengths: {
      size_t index = size_t(reserve.lengths());
      std::vector<int64_t> lengths(size_t(values[index].dims[0]));
      for (size_t entry = 0; entry < lengths.size(); ++entry) {
        KVC_ASSIGN_OR_RETURN(lengths[entry], element(index, int64_t(entry)));
      }
      KVC_ASSIGN_OR_RETURN(int64_t limit, evaluate(reserve.limit()));
      return cache.reserveLengthsLocked(batch, lengths, limit);
    }
    }
    return Status(StatusCode::internal, "expects a verified mode");
  }

  Status dispatch(const fb::Dispatch &dispatch) {
    words.clear();
    for (size_t i = 0; i < sizeOfVector(dispatch.operands()); ++i) {
      KVC_RETURN_IF_ERROR(appendWords(dispatch.operands()->Get(i)));
      if (const std::shared_ptr<Cache> &cache = values[dispatch.operands()->Get(i)].cache) {
        KVC_RETURN_IF_ERROR(pending.addKernelOf(*cache));
      }
    }
    KVC_ASSIGN_OR_RETURN(int64_t items, evaluate(dispatch.items()));
    if (items < 0) {
      return Status(StatusCode::outOfRange,
                    fmt::format("expects a count of work items that is not negative, but got {}", items));
    }
    if (items == 0) {
      return {};
    }
    return launch(dispatch.kernel(), items);
  }

  Status launch(size_t kernel, int64_t items) {
    Profile &profile = device.profile();
    if (!profile.isOn()) {
      return pending.launch(kernel, words, items);
    }
    KVC_RETURN_IF_ERROR(pending.flush());
    LaunchReport report;
    const auto start = std::chrono::steady_clock::now();
    Status status = device.launch(module->code(), kernel, words, items, &report);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (status.ok()) {
      profile.add({Module::viewOf(function.name()), module->kernelName(kernel), device.name(), items, seconds.count(),
                   report.deviceSeconds, report.counters});
    }
    return status;
  }

  // --- Results -------------------------------------------------------------

  Status takeResult(size_t index, std::vector<CallResult> &results) {
    State &state = values[index];
    CallResult result;
    switch (value(index).type_type()) {
    case fb::ValueType::Cache:
      result.kind = Argument::Kind::cache;
      result.cache = state.cache;
      break;
    case fb::ValueType::Scalar: {
      result.dtype = value(index).type_as_Scalar()->dtype();
      KVC_ASSIGN_OR_RETURN(int64_t word, scalarWord(index));
      result.kind = result.dtype == fb::DType::f32 ? Argument::Kind::real : Argument::Kind::integer;
      result.integer = word;
      uint32_t bits = uint32_t(word);
      std::memcpy(&result.real, &bits, sizeof(bits));
      break;
    }
    default: {
      const fb::Tensor &tensor = *value(index).type_as_Tensor();
      KVC_RETURN_IF_ERROR(bind(index));
      KVC_ASSIGN_OR_RETURN(uint64_t bytes, bytesOf(tensor, state.dims));
      result.dtype = tensor.dtype();
      result.dims = state.dims;
      if (tensor.source() == fb::TensorSource::buffer && device.isHostMemory() && isLastResult(index, results.size())) {
        result.buffer = std::move(state.buffer);
      } else if (device.isHostMemory()) {
        KVC_ASSIGN_OR_RETURN(result.buffer, allocateTemporary(bytes));
        KVC_RETURN_IF_ERROR(device.copyToHost(result.buffer.data(), state.address, bytes));
      } else {
        KVC_ASSIGN_OR_RETURN(result.host, Memory::allocate(module->device(), bytes, MemoryKind::shared));
        KVC_RETURN_IF_ERROR(device.enqueueCopyToHost(result.host.data(), state.address, bytes));
      }
      break;
    }
    }
    results.push_back(std::move(result));
    return {};
  }

  /// A buffer that no later result and no view in them needs may be given away.
  bool isLastResult(size_t index, size_t position) const {
    for (size_t i = position + 1; i < sizeOfVector(function.results()); ++i) {
      size_t other = function.results()->Get(i)->value();
      const fb::Tensor *tensor = value(other).type_as_Tensor();
      while (tensor && tensor->source() == fb::TensorSource::view) {
        other = size_t(tensor->base());
        tensor = value(other).type_as_Tensor();
      }
      if (other == index) {
        return false;
      }
    }
    return true;
  }

  std::shared_ptr<Module> module;
  Device &device;
  const fb::Function &function;
  std::shared_ptr<const Weights> weights;
  std::vector<State> values;
  std::vector<int64_t> memo; // of expressions, valid where memoStep is stepNumber
  std::vector<uint64_t> memoStep;
  uint64_t stepNumber = 0;
  size_t nextCheck = 0;
  std::vector<std::shared_ptr<Cache>> caches;
  std::vector<std::shared_ptr<Batch>> batches;
  std::vector<std::unique_lock<std::mutex>> locks;
  std::unordered_map<const fb::Tensor *, const void *> hostData; // of argument tensors
  std::vector<uint64_t> words;                                   // of the dispatch at hand
  bool changed = false;
  const bool queues, roundsLengths;
  std::map<std::pair<uint64_t, const void *>, Temporary> freed; // while launches are kept
  PendingWork pending;
};

} // namespace

Status run(const std::shared_ptr<Module> &module, size_t index, const std::vector<Argument> &arguments,
           std::vector<CallResult> &results) {
  const fb::Function &function = module->function(index);
  results.clear();
  Status status = Call(module, function, module->mayRoundLengths(index)).run(arguments, results);
  if (!status.ok()) {
    results.clear();
    return std::move(status).withContext(fmt::format("function '{}'", function.name()->str()));
  }
  return {};
}

} // namespace kvc::rt

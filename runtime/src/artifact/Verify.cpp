//===- Verify.cpp - Semantic rules of the artifact schema -----------------===//
//
// Checks everything that the runtime relies on after the FlatBuffers verifier
// has passed: indices in range and of the right kind, expressions acyclic,
// values defined before use and not used after they were freed, sizes sane.
//
//===----------------------------------------------------------------------===//
#include "artifact/Artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace kvc::artifact {
namespace {

// Generous bounds that keep arithmetic on sizes far from overflow.
constexpr uint64_t maxBytes = uint64_t(1) << 40;
constexpr uint32_t maxHeads = 1 << 16;
constexpr uint32_t maxPageSlots = 256;
constexpr uint32_t maxTailSlots = 1 << 20;
constexpr size_t maxRank = 16;
constexpr size_t maxOperands = 4096;
constexpr uint32_t maxExprDepth = 1000;

template <typename... Args> Status bad(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::corrupt, fmt::format(format, std::forward<Args>(args)...));
}

template <typename T> size_t sizeOfVector(const T *vector) { return vector ? vector->size() : 0; }

// The FlatBuffers verifier does not look at the alignment of structs in vectors.
template <typename T> Status verifyAligned(const char *what, const flatbuffers::Vector<const T *> *vector) {
  if (sizeOfVector(vector) > 0 && reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) != 0) {
    return bad("expects {} at a multiple of {} bytes", what, alignof(T));
  }
  return {};
}

std::string_view text(const flatbuffers::String *string) {
  return string ? std::string_view(string->data(), string->size()) : std::string_view();
}

// Names end up in C strings (symbols, messages): no empty name, no NUL inside.
Status verifyName(const char *what, const flatbuffers::String *name) {
  if (text(name).empty() || text(name).find('\0') != std::string_view::npos) {
    return bad("expects a {} name that is not empty and has no NUL", what);
  }
  return {};
}

// Bytes of a tensor whose dimensions are all static, or nothing.
std::optional<uint64_t> staticBytes(const fb::Tensor &tensor) {
  uint64_t bytes = sizeOf(tensor.dtype());
  for (size_t i = 0; i < sizeOfVector(tensor.dims()); ++i) {
    int64_t size = tensor.dims()->Get(i)->size();
    if (size < 0 || __builtin_mul_overflow(bytes, uint64_t(size), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

/// Checks one function of a plan.
class FunctionVerifier {
public:
  FunctionVerifier(const fb::Module &module, const fb::Function &function) : module(module), function(function) {}

  Status verify() {
    KVC_RETURN_IF_ERROR(collectValues());
    KVC_RETURN_IF_ERROR(verifyExprs());
    for (size_t i = 0; i < values.size(); ++i) {
      if (Status status = verifyValue(i); !status.ok()) {
        return std::move(status).withContext(fmt::format("value {}", i));
      }
    }
    KVC_RETURN_IF_ERROR(verifyPorts());
    for (size_t i = 0; i < sizeOfVector(function.steps()); ++i) {
      if (Status status = verifyStep(i); !status.ok()) {
        return std::move(status).withContext(fmt::format("step {}", i));
      }
    }
    for (size_t i = 0; i < sizeOfVector(function.checks()); ++i) {
      if (Status status = verifyCheck(i); !status.ok()) {
        return std::move(status).withContext(fmt::format("check {}", i));
      }
    }
    for (size_t i = 0; i < sizeOfVector(function.results()); ++i) {
      if (Status status = verifyResult(i); !status.ok()) {
        return std::move(status).withContext(fmt::format("result {}", i));
      }
    }
    return {};
  }

private:
  // What is known of a value while the steps are walked.
  struct State {
    const fb::Value *value = nullptr;
    bool defined = false; // caches: argument, or a clone step has run
    bool freed = false;
    uint32_t root = 0; // tensors: the value that owns the memory
  };

  Status collectValues() {
    values.resize(sizeOfVector(function.values()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].value = function.values()->Get(i);
      values[i].root = i;
      if (const fb::Tensor *tensor = values[i].value->type_as_Tensor()) {
        KVC_RETURN_IF_ERROR(verifyAligned("dimensions", tensor->dims()));
      }
      if (values[i].value->type_type() == fb::ValueType::NONE || values[i].value->type_type() > fb::ValueType::MAX) {
        return bad("value {}: expects a value of a known kind, but got kind {}", i, int(values[i].value->type_type()));
      }
    }
    return {};
  }

  const fb::Tensor *tensor(int64_t value) const {
    return inRange(value) ? values[value].value->type_as_Tensor() : nullptr;
  }
  const fb::Cache *cache(int64_t value) const {
    return inRange(value) ? values[value].value->type_as_Cache() : nullptr;
  }
  const fb::Batch *batch(int64_t value) const {
    return inRange(value) ? values[value].value->type_as_Batch() : nullptr;
  }
  const fb::Scalar *scalar(int64_t value) const {
    return inRange(value) ? values[value].value->type_as_Scalar() : nullptr;
  }
  bool inRange(int64_t value) const { return value >= 0 && size_t(value) < values.size(); }

  bool isNode(int64_t expr) const { return expr >= 0 && size_t(expr) < sizeOfVector(function.exprs()); }

  // Nodes and values refer to each other. No cycle is possible since a node
  // uses earlier nodes only, also through the dimensions of a value. Depth is
  // bounded because the runtime evaluates recursively.
  Status verifyExprs() {
    KVC_RETURN_IF_ERROR(verifyAligned("expressions", function.exprs()));
    size_t count = sizeOfVector(function.exprs());
    depth.assign(count, 0);
    for (size_t i = 0; i < count; ++i) {
      if (Status status = verifyExpr(i, *function.exprs()->Get(i)); !status.ok()) {
        return std::move(status).withContext(fmt::format("expression {}", i));
      }
      if (depth[i] > maxExprDepth) {
        return bad("expression {}: expects a nesting of at most {}, but got {}", i, maxExprDepth, depth[i]);
      }
    }
    return {};
  }

  // Node i reads node `operand`.
  Status readNode(size_t i, int64_t operand) {
    if (operand < 0 || size_t(operand) >= i) {
      return bad("expects operands among the {} earlier expressions, but got {}", i, operand);
    }
    depth[i] = std::max(depth[i], depth[operand] + 1);
    return {};
  }

  Status verifyExpr(size_t i, const fb::Expr &expr) {
    switch (expr.op()) {
    case fb::ExprOp::constant:
      return {};
    case fb::ExprOp::add:
    case fb::ExprOp::sub:
    case fb::ExprOp::mul:
    case fb::ExprOp::ceildiv:
    case fb::ExprOp::floordiv:
    case fb::ExprOp::min:
    case fb::ExprOp::max:
      KVC_RETURN_IF_ERROR(readNode(i, expr.a()));
      return readNode(i, expr.b());
    case fb::ExprOp::dim:
      if (!tensor(expr.a()) || expr.b() < 0 || size_t(expr.b()) >= sizeOfVector(tensor(expr.a())->dims())) {
        return bad("expects a tensor value and one of its axes, but got value {} and axis {}", expr.a(), expr.b());
      }
      return readDim(i, *tensor(expr.a())->dims()->Get(expr.b()));
    case fb::ExprOp::scalar:
      if (!scalar(expr.a()) || scalar(expr.a())->dtype() == fb::DType::f32) {
        return bad("expects an integer scalar value, but got value {}", expr.a());
      }
      return scalar(expr.a())->expr() == -1 ? Status() : readNode(i, scalar(expr.a())->expr());
    case fb::ExprOp::element: {
      const fb::Tensor *base = tensor(expr.a());
      if (!base || (base->dtype() != fb::DType::i32 && base->dtype() != fb::DType::i64) ||
          (base->source() != fb::TensorSource::argument && base->source() != fb::TensorSource::constant)) {
        return bad("expects an i32 or i64 tensor that is an argument or a constant, but got value {}", expr.a());
      }
      for (size_t axis = 0; axis < sizeOfVector(base->dims()); ++axis) {
        KVC_RETURN_IF_ERROR(readDim(i, *base->dims()->Get(axis)));
      }
      return readNode(i, expr.b());
    }
    case fb::ExprOp::processors:
      return {};
    case fb::ExprOp::entries:
    case fb::ExprOp::rows:
    case fb::ExprOp::max_rows:
    case fb::ExprOp::single_rows:
      return batch(expr.a()) ? Status() : bad("expects a batch value, but got value {}", expr.a());
    case fb::ExprOp::tables:
    case fb::ExprOp::max_pages:
      return cache(expr.a()) ? Status() : bad("expects a cache value, but got value {}", expr.a());
    case fb::ExprOp::max_length:
      return cache(expr.a()) && batch(expr.b())
                 ? Status()
                 : bad("expects a cache and a batch value, but got values {} and {}", expr.a(), expr.b());
    }
    return bad("expects a known operation, but got {}", int(expr.op()));
  }

  Status readDim(size_t i, const fb::Dim &dim) {
    return dim.size() >= 0 || dim.expr() == -1 ? Status() : readNode(i, dim.expr());
  }

  Status verifyValue(size_t i) {
    const fb::Value &value = *values[i].value;
    switch (value.type_type()) {
    case fb::ValueType::Tensor:
      return verifyTensor(i, *value.type_as_Tensor());
    case fb::ValueType::Cache:
      if (value.type_as_Cache()->spec() >= sizeOfVector(module.caches())) {
        return bad("expects one of {} cache specs, but got {}", sizeOfVector(module.caches()),
                   value.type_as_Cache()->spec());
      }
      return {};
    case fb::ValueType::Scalar: {
      const fb::Scalar &scalar = *value.type_as_Scalar();
      bool isInteger = scalar.dtype() == fb::DType::i32 || scalar.dtype() == fb::DType::i64;
      if (!isInteger && scalar.dtype() != fb::DType::f32) {
        return bad("expects a scalar of type i32, i64 or f32, but got {}", nameOf(scalar.dtype()));
      }
      if (scalar.expr() != -1) {
        return isInteger ? useNode(scalar.expr()) : bad("expects an integer for a computed scalar, but got f32");
      }
      return {};
    }
    default:
      return {};
    }
  }

  Status verifyTensor(size_t i, const fb::Tensor &tensor) {
    if (sizeOf(tensor.dtype()) == 0) {
      return bad("expects a known element type, but got {}", int(tensor.dtype()));
    }
    if (sizeOfVector(tensor.dims()) > maxRank) {
      return bad("expects at most {} dimensions, but got {}", maxRank, tensor.dims()->size());
    }
    bool isStatic = true;
    for (size_t axis = 0; axis < sizeOfVector(tensor.dims()); ++axis) {
      const fb::Dim &dim = *tensor.dims()->Get(axis);
      isStatic &= dim.size() >= 0;
      if (dim.size() < -1) {
        return bad("expects a size or -1 for dimension {}, but got {}", axis, dim.size());
      }
      if (dim.size() >= 0 || (dim.expr() == -1 && tensor.source() == fb::TensorSource::argument)) {
        continue;
      }
      KVC_RETURN_IF_ERROR(useNode(dim.expr()));
    }
    std::optional<uint64_t> bytes = staticBytes(tensor);
    if (isStatic && (!bytes || *bytes > maxBytes)) {
      return bad("expects a tensor of at most {} bytes", maxBytes);
    }
    switch (tensor.source()) {
    case fb::TensorSource::argument:
    case fb::TensorSource::buffer:
      return {};
    case fb::TensorSource::constant: {
      if (tensor.constant() < 0 || size_t(tensor.constant()) >= sizeOfVector(module.constants())) {
        return bad("expects one of {} constants, but got {}", sizeOfVector(module.constants()), tensor.constant());
      }
      size_t size = module.constants()->Get(tensor.constant())->bytes()->size();
      return bytes && size == *bytes ? Status() : bad("expects a static shape of {} bytes, as its constant has", size);
    }
    case fb::TensorSource::weight:
      KVC_RETURN_IF_ERROR(verifyName("weight", tensor.weight()));
      return bytes && tensor.weight_bytes() == *bytes
                 ? Status()
                 : bad("expects a static shape of {} bytes, as its weight has", tensor.weight_bytes());
    case fb::TensorSource::view:
      if (tensor.base() < 0 || size_t(tensor.base()) >= i || !this->tensor(tensor.base())) {
        return bad("expects an earlier tensor value as the base, but got {}", tensor.base());
      }
      values[i].root = values[tensor.base()].root;
      return tensor.offset() == -1 ? Status() : useNode(tensor.offset());
    }
    return bad("expects a known source, but got {}", int(tensor.source()));
  }

  // True when the value comes from the caller, so that a port must name it.
  bool isArgument(const fb::Value &value) const {
    switch (value.type_type()) {
    case fb::ValueType::Tensor:
      return value.type_as_Tensor()->source() == fb::TensorSource::argument;
    case fb::ValueType::Batch:
      return true;
    case fb::ValueType::Scalar:
      return value.type_as_Scalar()->expr() == -1;
    default:
      return false;
    }
  }

  Status verifyPorts() {
    std::vector<bool> named(values.size());
    std::set<std::string_view> names;
    for (size_t i = 0; i < sizeOfVector(function.arguments()); ++i) {
      const fb::Port &port = *function.arguments()->Get(i);
      if (!inRange(port.value())) {
        return bad("argument {}: expects one of {} values, but got {}", i, values.size(), port.value());
      }
      State &state = values[port.value()];
      if (named[port.value()] || (!isArgument(*state.value) && !cache(port.value()))) {
        return bad("argument {}: expects a value of its own that the caller gives, but got value {}", i, port.value());
      }
      if (!text(port.name()).empty() && !names.insert(text(port.name())).second) {
        return bad("argument {}: expects a name of its own, but got '{}' again", i, text(port.name()));
      }
      named[port.value()] = true;
      state.defined = true;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (isArgument(*values[i].value) && !named[i]) {
        return bad("value {}: expects an argument that gives it, but got none", i);
      }
    }
    return {};
  }

  Status useCache(uint32_t value) {
    if (!cache(value) || !values[value].defined || values[value].freed) {
      return bad("expects a cache that is defined and not freed, but got value {}", value);
    }
    return {};
  }

  Status useBatch(uint32_t value) { return batch(value) ? Status() : bad("expects a batch, but got value {}", value); }

  Status useNode(int32_t expr) {
    return isNode(expr) ? Status()
                        : bad("expects one of {} expressions, but got {}", sizeOfVector(function.exprs()), expr);
  }

  // A value that a kernel gets, or that the function returns.
  Status use(uint32_t value) {
    if (!inRange(value)) {
      return bad("expects one of {} values, but got {}", values.size(), value);
    }
    if (cache(value)) {
      return useCache(value);
    }
    if (values[values[value].root].freed) {
      return bad("value {} is used after it was freed", value);
    }
    return {};
  }

  Status verifyStep(size_t i) {
    const fb::Step &step = *function.steps()->Get(i);
    KVC_RETURN_IF_ERROR(verifyAction(step));
    for (size_t k = 0; k < sizeOfVector(step.free()); ++k) {
      uint32_t value = step.free()->Get(k);
      bool isBuffer = tensor(value) && tensor(value)->source() == fb::TensorSource::buffer;
      bool isOwned = cache(value) && owned.count(value);
      if ((!isBuffer && !isOwned) || values[value].freed) {
        return bad("expects to free a buffer or a clone once, but got value {}", value);
      }
      values[value].freed = true;
    }
    return {};
  }

  Status verifyAction(const fb::Step &step) {
    switch (step.action_type()) {
    case fb::Action::Dispatch: {
      const fb::Dispatch &dispatch = *step.action_as_Dispatch();
      // The kernel index is checked against every target that uses the plan.
      if (sizeOfVector(dispatch.operands()) > maxOperands) {
        return bad("expects at most {} operands, but got {}", maxOperands, dispatch.operands()->size());
      }
      for (size_t i = 0; i < sizeOfVector(dispatch.operands()); ++i) {
        if (Status status = use(dispatch.operands()->Get(i)); !status.ok()) {
          return std::move(status).withContext(fmt::format("operand {}", i));
        }
      }
      return useNode(dispatch.items());
    }
    case fb::Action::Reserve: {
      const fb::Reserve &reserve = *step.action_as_Reserve();
      if (reserve.mode() > fb::ReserveMode::MAX) {
        return bad("expects a known mode, but got {}", int(reserve.mode()));
      }
      KVC_RETURN_IF_ERROR(useCache(reserve.cache()));
      if (reserve.mode() == fb::ReserveMode::lengths) {
        const fb::Tensor *lengths = reserve.lengths() < 0 ? nullptr : tensor(uint32_t(reserve.lengths()));
        if (!lengths || lengths->dtype() != fb::DType::i32 || sizeOfVector(lengths->dims()) != 1 ||
            (lengths->source() != fb::TensorSource::argument && lengths->source() != fb::TensorSource::constant)) {
          return bad("expects lengths that are an i32 vector, an argument or a constant, but got value {}",
                     reserve.lengths());
        }
        KVC_RETURN_IF_ERROR(useNode(reserve.limit()));
      }
      return useBatch(reserve.batch());
    }
    case fb::Action::Release:
      KVC_RETURN_IF_ERROR(useCache(step.action_as_Release()->cache()));
      return useBatch(step.action_as_Release()->batch());
    case fb::Action::Clone: {
      const fb::Clone &clone = *step.action_as_Clone();
      KVC_RETURN_IF_ERROR(useCache(clone.source()));
      if (!cache(clone.result()) || values[clone.result()].defined) {
        return bad("expects a cache that nothing else defines as the clone, but got value {}", clone.result());
      }
      if (cache(clone.source())->spec() != cache(clone.result())->spec()) {
        return bad("expects a clone with cache spec {}, but got {}", cache(clone.source())->spec(),
                   cache(clone.result())->spec());
      }
      values[clone.result()].defined = true;
      owned.insert(clone.result());
      return {};
    }
    case fb::Action::Create: {
      const fb::Create &create = *step.action_as_Create();
      KVC_RETURN_IF_ERROR(useCache(create.source()));
      KVC_RETURN_IF_ERROR(useBatch(create.batch()));
      if (!cache(create.result()) || values[create.result()].defined) {
        return bad("expects a cache that nothing else defines as the created one, but got value {}", create.result());
      }
      auto tablesOf = [&](uint32_t value) { return module.caches()->Get(cache(value)->spec())->tables_per_sequence(); };
      if (tablesOf(create.source()) != tablesOf(create.result())) {
        return bad("expects a created cache with {} tables per sequence, but got {}", tablesOf(create.source()),
                   tablesOf(create.result()));
      }
      values[create.result()].defined = true;
      owned.insert(create.result());
      return {};
    }
    case fb::Action::Fork:
      KVC_RETURN_IF_ERROR(useCache(step.action_as_Fork()->cache()));
      KVC_RETURN_IF_ERROR(useNode(step.action_as_Fork()->source()));
      return useNode(step.action_as_Fork()->destination());
    default:
      return bad("expects a known action, but got {}", int(step.action_type()));
    }
  }

  Status verifyCheck(size_t i) {
    const fb::Check &check = *function.checks()->Get(i);
    uint32_t from = i > 0 ? function.checks()->Get(i - 1)->step() : 0, to = sizeOfVector(function.steps());
    if (check.step() < from || check.step() > to) {
      return bad("expects a step from {} to {}, but got {}", from, to, check.step());
    }
    if (check.relation() > fb::Relation::MAX) {
      return bad("expects a known relation, but got {}", int(check.relation()));
    }
    KVC_RETURN_IF_ERROR(useNode(check.left()));
    return useNode(check.right());
  }

  Status verifyResult(size_t i) {
    uint32_t value = function.results()->Get(i)->value();
    KVC_RETURN_IF_ERROR(use(value));
    return batch(value) ? bad("expects a tensor, a cache or a scalar, but got a batch") : Status();
  }

  const fb::Module &module;
  const fb::Function &function;
  std::vector<State> values;
  std::vector<uint32_t> depth;
  std::set<uint32_t> owned; // caches that the function made
};

Status verifyCacheSpec(const fb::CacheSpec &spec) {
  KVC_RETURN_IF_ERROR(verifyName("cache", spec.name()));
  if (spec.kv_heads() == 0 || spec.kv_heads() > maxHeads) {
    return bad("expects 1 to {} KV heads, but got {}", maxHeads, spec.kv_heads());
  }
  if (spec.tables_per_sequence() != 1 && spec.tables_per_sequence() != spec.kv_heads()) {
    return bad("expects 1 or {} tables per sequence, but got {}", spec.kv_heads(), spec.tables_per_sequence());
  }
  if (spec.page_slots() == 0 || spec.page_slots() > maxPageSlots) {
    return bad("expects 1 to {} slots per page, but got {}", maxPageSlots, spec.page_slots());
  }
  if (spec.tail_slots() > maxTailSlots || spec.residual() > spec.tail_slots() ||
      spec.seal_group() > spec.tail_slots()) {
    return bad("expects a residual and a seal group of at most tail_slots, and that of at most {}, but got {}, {}, {}",
               maxTailSlots, spec.residual(), spec.seal_group(), spec.tail_slots());
  }
  return {};
}

Status verifyLayout(const fb::CacheSpec &spec, const fb::CacheLayout &layout) {
  if (layout.page_bytes() == 0 || layout.page_bytes() % 64 != 0 || layout.page_bytes() > maxBytes) {
    return bad("expects a page size that is a multiple of 64 from 64 to {} bytes, but got {}", maxBytes,
               layout.page_bytes());
  }
  double payload = layout.page_payload_bytes();
  if (!std::isfinite(payload) || payload < 0 || payload > double(layout.page_bytes())) {
    return bad("expects a page payload of 0 to {} bytes, but got {}", layout.page_bytes(), payload);
  }
  if ((layout.tail_bytes() == 0) != (spec.tail_slots() == 0) || layout.tail_bytes() > maxBytes) {
    return bad("expects tail_bytes for tail_slots = {} and at most {}, but got {}", spec.tail_slots(), maxBytes,
               layout.tail_bytes());
  }
  double slot = layout.tail_slot_payload_bytes();
  if (!std::isfinite(slot) || slot < 0 || slot * spec.tail_slots() > double(layout.tail_bytes())) {
    return bad("expects tail slots that fit into {} bytes, but got {} of {} bytes", layout.tail_bytes(),
               spec.tail_slots(), slot);
  }
  return {};
}

Status verifyPlan(const fb::Module &module, const fb::Plan &plan) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < sizeOfVector(plan.functions()); ++i) {
    const fb::Function &function = *plan.functions()->Get(i);
    KVC_RETURN_IF_ERROR(verifyName("function", function.name()));
    if (!names.insert(text(function.name())).second) {
      return bad("expects functions of different names, but got '{}' twice", text(function.name()));
    }
    if (Status status = FunctionVerifier(module, function).verify(); !status.ok()) {
      return std::move(status).withContext(fmt::format("function '{}'", text(function.name())));
    }
  }
  for (size_t i = 0; i < sizeOfVector(module.caches()); ++i) {
    std::string_view truncate = text(module.caches()->Get(i)->truncate_function());
    if (!truncate.empty() && !names.count(truncate)) {
      return bad("expects a function '{}', which truncates cache '{}', but got none", truncate,
                 text(module.caches()->Get(i)->name()));
    }
  }
  return {};
}

// What the driver wants of a tensor map, and the kernel's launch of the words.
Status verifyBoxes(const fb::Kernel &kernel) {
  KVC_RETURN_IF_ERROR(verifyAligned("maps of boxes", kernel.boxes()));
  for (size_t i = 0; i < sizeOfVector(kernel.boxes()); ++i) {
    const fb::BoxMap &map = *kernel.boxes()->Get(i);
    constexpr uint64_t granule = 16, strideBound = uint64_t(1) << 40;
    constexpr uint32_t maxBox = 256, elementBytes = 2;
    const bool isPanel = map.swizzle() == 32 || map.swizzle() == 64 || map.swizzle() == 128;
    bool fits = isPanel && map.box()->Get(0) * elementBytes == map.swizzle() && map.offset() % granule == 0 &&
                map.offset() <= maxBytes && map.word() < maxOperands;
    for (uint64_t stride : *map.strides()) {
      fits &= stride > 0 && stride % granule == 0 && stride < strideBound;
    }
    for (uint32_t extent : *map.extents()) {
      fits &= extent > 0;
    }
    for (uint32_t size : *map.box()) {
      fits &= size > 0 && size <= maxBox;
    }
    if (!fits) {
      return bad(
          "kernel '{}': expects boxes of 1 to {} elements in rows of a panel of 32, 64 or 128 bytes, and strides "
          "that are multiples of {} below 2^40, but got others for map {}",
          text(kernel.name()), maxBox, granule, i);
    }
  }
  return {};
}

Status verifyTarget(const fb::Module &module, const fb::Target &target) {
  if (target.kind() > fb::CodeKind::MAX) {
    return bad("expects a known kind of code, but got {}", int(target.kind()));
  }
  for (size_t i = 0; i < sizeOfVector(target.kernels()); ++i) {
    const fb::Kernel &kernel = *target.kernels()->Get(i);
    KVC_RETURN_IF_ERROR(verifyName("kernel", kernel.name()));
    if (kernel.scratch_bytes() > maxBytes) {
      return bad("kernel '{}': expects at most {} bytes of scratch, but got {}", text(kernel.name()), maxBytes,
                 kernel.scratch_bytes());
    }
    if (target.kind() == fb::CodeKind::shared_object && sizeOfVector(kernel.boxes()) > 0) {
      return bad("kernel '{}': expects maps of boxes for GPUs only, but got {} for a CPU", text(kernel.name()),
                 sizeOfVector(kernel.boxes()));
    }
  }
  if (target.kind() != fb::CodeKind::shared_object) {
    constexpr uint32_t maxLanes = 1024, maxStaging = 1 << 20;
    for (size_t i = 0; i < sizeOfVector(target.kernels()); ++i) {
      const fb::Kernel &kernel = *target.kernels()->Get(i);
      if (kernel.team_lanes() < 1 || kernel.team_lanes() > maxLanes || kernel.staging_bytes() > maxStaging) {
        return bad("kernel '{}': expects 1 to {} threads and at most {} bytes of shared memory, but got {} and {}",
                   text(kernel.name()), maxLanes, maxStaging, kernel.team_lanes(), kernel.staging_bytes());
      }
      KVC_RETURN_IF_ERROR(verifyBoxes(kernel));
    }
  }
  if (sizeOfVector(target.layouts()) != sizeOfVector(module.caches())) {
    return bad("expects a layout for each of {} caches, but got {}", sizeOfVector(module.caches()),
               sizeOfVector(target.layouts()));
  }
  for (size_t i = 0; i < sizeOfVector(target.layouts()); ++i) {
    const fb::CacheSpec &spec = *module.caches()->Get(i);
    if (Status status = verifyLayout(spec, *target.layouts()->Get(i)); !status.ok()) {
      return std::move(status).withContext(fmt::format("cache '{}'", text(spec.name())));
    }
  }
  if (target.plan() >= sizeOfVector(module.plans())) {
    return bad("expects one of {} plans, but got {}", sizeOfVector(module.plans()), target.plan());
  }
  const fb::Plan &plan = *module.plans()->Get(target.plan());
  for (size_t f = 0; f < sizeOfVector(plan.functions()); ++f) {
    const fb::Function &function = *plan.functions()->Get(f);
    for (size_t s = 0; s < sizeOfVector(function.steps()); ++s) {
      const fb::Dispatch *dispatch = function.steps()->Get(s)->action_as_Dispatch();
      if (dispatch && dispatch->kernel() >= sizeOfVector(target.kernels())) {
        return bad("function '{}': step {}: expects one of {} kernels, but got {}", text(function.name()), s,
                   sizeOfVector(target.kernels()), dispatch->kernel());
      }
    }
  }
  return {};
}

} // namespace

Status verifyModule(const fb::Module &module) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < sizeOfVector(module.caches()); ++i) {
    const fb::CacheSpec &spec = *module.caches()->Get(i);
    if (Status status = verifyCacheSpec(spec); !status.ok()) {
      return std::move(status).withContext(fmt::format("cache {}", i));
    }
    if (!names.insert(text(spec.name())).second) {
      return bad("expects caches of different names, but got '{}' twice", text(spec.name()));
    }
  }
  for (size_t i = 0; i < sizeOfVector(module.plans()); ++i) {
    if (Status status = verifyPlan(module, *module.plans()->Get(i)); !status.ok()) {
      return std::move(status).withContext(fmt::format("plan {}", i));
    }
  }
  if (sizeOfVector(module.targets()) == 0) {
    return bad("expects at least one target, but got none");
  }
  names.clear();
  for (size_t i = 0; i < sizeOfVector(module.targets()); ++i) {
    const fb::Target &target = *module.targets()->Get(i);
    KVC_RETURN_IF_ERROR(verifyName("target", target.name()));
    if (!names.insert(text(target.name())).second) {
      return bad("expects targets of different names, but got '{}' twice", text(target.name()));
    }
    if (Status status = verifyTarget(module, target); !status.ok()) {
      return std::move(status).withContext(fmt::format("target '{}'", text(target.name())));
    }
  }
  return {};
}

} // namespace kvc::artifact

//===- ArtifactBuilder.cpp - Plans and code to a container ----------------===//
#include "kvc/Target/Artifact.h"

#include "Plan.h"
#include "artifact/Artifact.h"
#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "kvc/Target/PageLayout.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kvc;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

struct ArtifactBuilder::State {
  struct Kernel {
    KernelCode code;
    std::vector<fb::BoxMap> boxes;
  };
  struct Entry {
    const Target *target;
    fb::CodeKind kind;
    std::vector<uint8_t> code;
    std::string assembly;
    std::vector<Kernel> kernels;
    uint32_t plan;
  };
  plan::Tables tables;
  /// By cache spec: the function that truncates into sealed slots.
  llvm::DenseMap<uint32_t, std::string> truncates;
  std::vector<std::vector<plan::Function>> plans;
  std::vector<Entry> targets;
};

ArtifactBuilder::ArtifactBuilder() : state(std::make_unique<State>()) {}
ArtifactBuilder::~ArtifactBuilder() = default;

static fb::CodeKind kindOf(CodeKind kind) {
  switch (kind) {
  case CodeKind::SharedObject:
    return fb::CodeKind::shared_object;
  case CodeKind::Cubin:
    return fb::CodeKind::cubin;
  case CodeKind::Hsaco:
    return fb::CodeKind::hsaco;
  }
  llvm_unreachable("all kinds are listed");
}

/// What launches of a kernel pass tensor maps of, in the order of its parameters behind the words.
static std::vector<fb::BoxMap> boxesOf(func::FuncOp kernel) {
  std::vector<fb::BoxMap> boxes;
  auto list = kernel->getAttrOfType<ArrayAttr>(tile::TileDialect::boxesAttr);
  if (!list) {
    return boxes;
  }
  for (auto from : list.getAsRange<tile::BoxesAttr>()) {
    uint32_t word = 0;
    for (Type type : kernel.getArgumentTypes().take_front(from.getArgument())) {
      word += static_cast<uint32_t>(tile::wordsOf(type));
    }
    std::array<uint64_t, 4> strides;
    std::array<uint32_t, 4> extents;
    std::array<uint32_t, 5> box;
    llvm::copy(from.getStrides().asArrayRef(), strides.begin());
    llvm::copy(from.getExtents().asArrayRef(), extents.begin());
    llvm::copy(from.getBox().asArrayRef(), box.begin());
    boxes.emplace_back(static_cast<uint64_t>(from.getOffset()), strides, extents, box, word,
                       static_cast<uint32_t>(from.getSwizzle()));
  }
  return boxes;
}

LogicalResult ArtifactBuilder::addTarget(ModuleOp module, const Target &target, const TargetCode &code) {
  State::Entry entry{&target, kindOf(code.kind), code.code, code.assembly, {}, 0};
  llvm::StringMap<uint32_t> kernels, bySymbol;
  for (const KernelCode &kernel : code.kernels) {
    auto [index, isNew] = bySymbol.try_emplace(kernel.symbol, entry.kernels.size());
    if (isNew) {
      entry.kernels.push_back({kernel, boxesOf(module.lookupSymbol<func::FuncOp>(kernel.name))});
    }
    kernels[kernel.name] = index->second;
  }
  std::vector<plan::Function> functions;
  for (func::FuncOp function : tile::hostFunctionsOf(module)) {
    if (function.isExternal()) {
      return function.emitOpError() << "expects a body: an artifact holds whole functions";
    }
    FailureOr<plan::Function> plan = plan::buildFunction(function, kernels, state->tables);
    if (failed(plan)) {
      return failure();
    }
    if (function->hasAttr(truncateAttrName)) {
      uint32_t spec = plan->values[plan->arguments.front().value].spec;
      state->truncates[spec] = plan->name;
    }
    functions.push_back(std::move(*plan));
  }
  if (functions.empty()) {
    return module.emitError() << "expects a function to compile in the module, but got none";
  }
  auto found = llvm::find(state->plans, functions);
  entry.plan = found - state->plans.begin();
  if (found == state->plans.end()) {
    state->plans.push_back(std::move(functions));
  }
  state->targets.push_back(std::move(entry));
  return success();
}

namespace {
/// Writes the tables of a plan.
class Writer {
public:
  explicit Writer(FlatBufferBuilder &b) : b(b) {}

  Offset<fb::Function> function(const plan::Function &function) {
    std::vector<fb::Expr> exprs;
    for (const plan::Expr &expr : function.exprs) {
      exprs.emplace_back(expr.op, expr.a, expr.b, expr.value);
    }
    std::vector<Offset<fb::Value>> values;
    for (const plan::Value &v : function.values) {
      values.push_back(value(v));
    }
    std::vector<Offset<fb::Step>> steps;
    for (const plan::Step &s : function.steps) {
      auto [type, offset] = action(s);
      steps.push_back(fb::CreateStep(b, type, offset, b.CreateVector(s.free)));
    }
    std::vector<Offset<fb::Check>> checks;
    for (const plan::Check &c : function.checks) {
      checks.push_back(fb::CreateCheck(b, c.step, c.relation, c.left, c.right, b.CreateString(c.text)));
    }
    auto name = b.CreateString(function.name);
    auto exprVector = b.CreateVectorOfStructs(exprs);
    auto valueVector = b.CreateVector(values);
    auto arguments = ports(function.arguments), results = ports(function.results);
    return fb::CreateFunction(b, name, exprVector, valueVector, arguments, results, b.CreateVector(steps),
                              b.CreateVector(checks));
  }

private:
  Offset<flatbuffers::Vector<Offset<fb::Port>>> ports(const std::vector<plan::Port> &ports) {
    std::vector<Offset<fb::Port>> offsets;
    for (const plan::Port &port : ports) {
      auto name = b.CreateString(port.name), type = b.CreateString(port.irType);
      offsets.push_back(fb::CreatePort(b, name, port.value, type));
    }
    return b.CreateVector(offsets);
  }

  Offset<fb::Value> value(const plan::Value &v) {
    switch (v.kind) {
    case fb::ValueType::Cache:
      return fb::CreateValue(b, v.kind, fb::CreateCache(b, v.spec).Union());
    case fb::ValueType::Batch:
      return fb::CreateValue(b, v.kind, fb::CreateBatch(b).Union());
    case fb::ValueType::Scalar:
      return fb::CreateValue(b, v.kind, fb::CreateScalar(b, v.dtype, v.expr).Union());
    default:
      break;
    }
    std::vector<fb::Dim> dims;
    for (const plan::Dim &dim : v.dims) {
      dims.emplace_back(dim.size, dim.expr);
    }
    auto dimVector = b.CreateVectorOfStructs(dims);
    auto weight = v.weight.empty() ? Offset<flatbuffers::String>() : b.CreateString(v.weight);
    return fb::CreateValue(b, v.kind,
                           fb::CreateTensor(b, v.dtype, dimVector, v.source, v.constant, weight, v.weightType,
                                            v.weightBytes, v.base, v.offset)
                               .Union());
  }

  std::pair<fb::Action, Offset<void>> action(const plan::Step &s) {
    switch (s.action) {
    case fb::Action::Dispatch:
      return {s.action, fb::CreateDispatch(b, s.kernel, b.CreateVector(s.operands), s.items).Union()};
    case fb::Action::Reserve:
      return {s.action, fb::CreateReserve(b, s.cache, s.batch, s.mode, s.lengths, s.limit).Union()};
    case fb::Action::Release:
      return {s.action, fb::CreateRelease(b, s.cache, s.batch).Union()};
    case fb::Action::Clone:
      return {s.action, fb::CreateClone(b, s.cache, s.result).Union()};
    case fb::Action::Create:
      return {s.action, fb::CreateCreate(b, s.cache, s.batch, s.result).Union()};
    case fb::Action::Fork:
      return {s.action, fb::CreateFork(b, s.cache, s.source, s.destination).Union()};
    default:
      llvm_unreachable("all steps are listed");
    }
  }

  FlatBufferBuilder &b;
};
} // namespace

FailureOr<std::vector<uint8_t>> ArtifactBuilder::finish(Location location, StringRef provenance) {
  FlatBufferBuilder b;
  // Types print with the names that their dialects give them.
  std::vector<Offset<fb::CacheSpec>> specs;
  for (auto [i, type] : llvm::enumerate(state->tables.caches)) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    auto name = b.CreateString("cache" + std::to_string(i)), irType = b.CreateString(text);
    specs.push_back(fb::CreateCacheSpec(
        b, name, irType, type.getHeads(), type.getTablesPerSequence(), type.getPage(), type.getTailSlots(),
        type.getResidual(), type.hasTail() ? type.getSealGroup() : 0, b.CreateString(state->truncates.lookup(i))));
  }
  std::vector<Offset<fb::Constant>> constants;
  for (const std::string &bytes : state->tables.constants) {
    // Kernels load vectors from constants.
    b.ForceVectorAlignment(bytes.size(), 1, 64);
    constants.push_back(
        fb::CreateConstant(b, b.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())));
  }
  Writer writer(b);
  std::vector<Offset<fb::Plan>> plans;
  for (const std::vector<plan::Function> &functions : state->plans) {
    std::vector<Offset<fb::Function>> offsets;
    for (const plan::Function &function : functions) {
      offsets.push_back(writer.function(function));
    }
    plans.push_back(fb::CreatePlan(b, b.CreateVector(offsets)));
  }
  std::vector<Offset<fb::Target>> targets;
  for (const State::Entry &entry : state->targets) {
    std::vector<Offset<fb::Kernel>> kernels;
    for (const auto &[kernel, boxes] : entry.kernels) {
      auto name = b.CreateString(kernel.symbol);
      auto maps = boxes.empty() ? 0 : b.CreateVectorOfStructs(boxes);
      kernels.push_back(fb::CreateKernel(b, name, kernel.scratchBytes, kernel.teamLanes, kernel.stagingBytes,
                                         kernel.registers, kernel.spillBytes, maps));
    }
    std::vector<Offset<fb::CacheLayout>> layouts;
    for (kvcache::CacheType type : state->tables.caches) {
      PageLayout layout = computePageLayout(type, *entry.target);
      layouts.push_back(fb::CreateCacheLayout(b, layout.pageBytes, double(layout.pagePayloadBytes), layout.tailBytes,
                                              double(layout.tailSlotPayloadBytes)));
    }
    auto name = b.CreateString(entry.target->name.str());
    b.ForceVectorAlignment(entry.code.size(), 1, 64);
    auto code = b.CreateVector(entry.code);
    auto kernelVector = b.CreateVector(kernels);
    auto layoutVector = b.CreateVector(layouts);
    auto assembly = entry.assembly.empty() ? Offset<flatbuffers::String>() : b.CreateString(entry.assembly);
    targets.push_back(fb::CreateTarget(b, name, entry.kind, code, kernelVector, entry.plan, layoutVector, assembly));
  }
  auto origin = b.CreateString(provenance.str());
  auto constantVector = b.CreateVector(constants);
  auto specVector = b.CreateVector(specs);
  auto planVector = b.CreateVector(plans);
  fb::FinishModuleBuffer(b,
                         fb::CreateModule(b, origin, constantVector, specVector, planVector, b.CreateVector(targets)));
  Result<std::vector<uint8_t>> sealed = artifact::seal({b.GetBufferPointer(), b.GetSize()});
  if (!sealed.ok()) {
    return emitError(location) << "the artifact does not verify: " << sealed.message();
  }
  return std::move(*sealed);
}

//===- SpliceMethod.cpp - KV methods enter a model's graph ----------------===//
//
// First the types of all caches become what the method needs, so that sites which share a cache agree; then each site
// becomes a copy of the method's function, with the types and attributes of the site.
//
//===----------------------------------------------------------------------===//
#include "MethodFile.h"
#include "kvc/Dialect/KVCache/Transforms/Method.h"
#include "kvc/Dialect/KVCache/Transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

namespace kvc {
#define GEN_PASS_DEF_SPLICEMETHODPASS
#include "kvc/Dialect/KVCache/Transforms/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;
using namespace kvc::kvcache;

//===----------------------------------------------------------------------===//
// Cache types
//===----------------------------------------------------------------------===//

/// The fields in which two cache types differ, as the assembly calls them, with both values.
static SmallVector<std::pair<StringRef, std::string>> differingFields(CacheType have, CacheType need) {
  SmallVector<std::pair<StringRef, std::string>> fields;
  auto text = [](auto value) {
    std::string result;
    llvm::raw_string_ostream(result) << value;
    return result;
  };
  auto add = [&](StringRef name, bool differs, std::string haveText, std::string needText) {
    if (differs) {
      fields.push_back({name, (Twine(name) + " = " + needText + ", but the choice is " + haveText).str()});
    }
  };
  auto format = [](FormatAttr attr) {
    std::string result;
    llvm::raw_string_ostream os(result);
    attr.printBare(os);
    return result;
  };
  add("k", have.getK() != need.getK(), format(have.getK()), format(need.getK()));
  add("v", have.getV() != need.getV(), format(have.getV()), format(need.getV()));
  for (auto [name, a, b] : std::initializer_list<std::tuple<StringRef, int64_t, int64_t>>{
           {"heads", have.getHeads(), need.getHeads()},
           {"dim", have.getKDim(), need.getKDim()},
           {"v_dim", have.getVDim(), need.getVDim()},
           {"page", have.getPage(), need.getPage()},
           {"residual", have.getResidual(), need.getResidual()},
           {"window", have.getWindow(), need.getWindow()},
           {"sinks", have.getSinks(), need.getSinks()}}) {
    add(name, a != b, text(a), text(b));
  }
  add("tail", have.getTail() != need.getTail(), text(have.getTail()), text(need.getTail()));
  auto positions = [](CacheType type) { return std::string(type.getStoredPositions() ? "stored" : "implicit"); };
  auto tables = [](CacheType type) { return std::string(type.getPerHead() ? "per_head" : "per_sequence"); };
  add("positions", have.getStoredPositions() != need.getStoredPositions(), positions(have), positions(need));
  add("tables", have.getPerHead() != need.getPerHead(), tables(have), tables(need));
  return fields;
}

/// The cache type `have` with the fields that the method needs in the site's layer.
static FailureOr<CacheType> cacheTypeFor(const MethodFile &method, AttendOp site, CacheType have,
                                         ArrayRef<std::string> chosen) {
  std::string fields = method.cacheFields(site.getLayer());
  if (fields.empty()) {
    return have;
  }
  if (RopeAttr rope = site.getRopeAttr()) {
    std::string ropeText, placeholder;
    llvm::raw_string_ostream(ropeText) << rope;
    llvm::raw_string_ostream(placeholder) << RopeAttr::getSite(site.getContext());
    for (size_t at; (at = fields.find(placeholder)) != std::string::npos;) {
      fields.replace(at, placeholder.size(), ropeText);
    }
  }
  std::string text;
  llvm::raw_string_ostream(text) << have;
  text.pop_back(); // the closing '>': a later field takes the place of an earlier one
  text += ", " + fields + ">";
  std::string complaint;
  CacheType need;
  {
    ScopedDiagnosticHandler collect(site.getContext(), [&](Diagnostic &diagnostic) {
      complaint += (complaint.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    need = dyn_cast_or_null<CacheType>(parseType(text, site.getContext()));
  }
  if (!need) {
    auto diag = emitError(method.location())
                << "method '" << method.name() << "' does not fit: its cache needs '" << fields << "': " << complaint;
    diag.attachNote(site.getLoc()) << "the site of layer " << site.getLayer() << " has " << have;
    return diag;
  }
  for (const auto &[name, what] : differingFields(have, need)) {
    if (llvm::is_contained({"heads", "dim", "v_dim"}, name) || llvm::is_contained(chosen, name)) {
      return emitError(method.location()) << "method '" << method.name() << "' needs a cache with " << what
                                          << "; leave that choice out or take another method",
             failure();
    }
  }
  return need;
}

namespace {
/// Values that are one cache in different states: they have one type.
class CacheClasses {
public:
  LogicalResult collect(ModuleOp graph) {
    auto result = graph.walk([&](Operation *op) {
      for (Value value : op->getOperands()) {
        visit(value);
      }
      for (Value value : op->getResults()) {
        visit(value);
      }
      if (auto site = dyn_cast<AttendOp>(op)) {
        sites.push_back(site);
      }
      // An op of the dialect that returns a cache of its operand's type returns that cache.
      if (isa_and_nonnull<KVCacheDialect>(op->getDialect()) && !isa<RequantizeOp>(op)) {
        for (Value value : op->getResults()) {
          if (isa<CacheType>(value.getType())) {
            join(op->getOperand(cacheOperandOf(op)), value);
          }
        }
      } else if (!isa<RequantizeOp, func::ReturnOp>(op)) {
        for (Value value :
             llvm::concat<Value>(SmallVector<Value>(op->getOperands()), SmallVector<Value>(op->getResults()))) {
          if (isa<CacheType>(value.getType())) {
            strangers.push_back({value, op});
          }
        }
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// The values of each cache that has a site, in the order of the first sites.
  llvm::MapVector<void *, SmallVector<Value>> ofSites() {
    llvm::MapVector<void *, SmallVector<Value>> result;
    for (AttendOp site : sites) {
      result[leader(site.getCache())];
    }
    for (Value value : values) {
      auto *found = result.find(leader(value));
      if (found != result.end()) {
        found->second.push_back(value);
      }
    }
    return result;
  }
  void *leader(Value value) { return classes.getLeaderValue(value.getAsOpaquePointer()); }

  SmallVector<AttendOp> sites;
  /// Uses and definitions by operations that do not say how their caches belong together.
  SmallVector<std::pair<Value, Operation *>> strangers;

private:
  static unsigned cacheOperandOf(Operation *op) {
    for (auto [i, value] : llvm::enumerate(op->getOperands())) {
      if (isa<CacheType>(value.getType())) {
        return i;
      }
    }
    llvm_unreachable("an op of the dialect that makes a cache has a cache operand");
  }
  void visit(Value value) {
    if (isa<CacheType>(value.getType()) && seen.insert(value).second) {
      values.push_back(value);
      classes.insert(value.getAsOpaquePointer());
    }
  }
  void join(Value a, Value b) { classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer()); }

  llvm::EquivalenceClasses<void *> classes;
  SmallVector<Value> values;
  DenseSet<Value> seen;
};

//===----------------------------------------------------------------------===//
// One site
//===----------------------------------------------------------------------===//

/// Copies a method's function in place of a site.
class SiteSplicer {
public:
  SiteSplicer(const MethodFile &method, AttendOp site) : method(method), site(site), b(site) {
    auto cache = cast<CacheType>(site.getCache().getType());
    auto query = cast<RankedTensorType>(site.getQuery().getType());
    constexpr int64_t dynamic = ShapedType::kDynamic;
    types = {{SiteRole::Q, query},
             {SiteRole::K, site.getKey().getType()},
             {SiteRole::V, site.getValue().getType()},
             {SiteRole::Out, site.getOut().getType()},
             {SiteRole::Lse, RankedTensorType::get(query.getShape().take_front(2), query.getElementType())},
             {SiteRole::Scores, RankedTensorType::get({dynamic, cache.getHeads(), dynamic}, query.getElementType())},
             {SiteRole::Cache, cache}};
    replacer.addReplacement([&](SiteType type) -> std::optional<Type> { return types.at(type.getRole()); });
    replacer.addReplacement([&](ParamAttr parameter) -> std::optional<Attribute> {
      return this->method.parameter(parameter.getName(), this->site.getLayer());
    });
    replacer.addReplacement([&](RopeAttr rope) -> std::optional<Attribute> {
      return rope.isSite() && this->site.getRopeAttr() ? this->site.getRopeAttr() : rope;
    });
  }

  LogicalResult run() {
    func::FuncOp function = method.functionOf(site.getPhase());
    if (!function) {
      auto diag = emitError(method.location()) << "method '" << method.name() << "' does not fit: expects a function @"
                                               << site.getPhase() << " or @step, but got none";
      diag.attachNote(site.getLoc()) << "for the site of layer " << site.getLayer();
      return diag;
    }
    FailureOr<SmallVector<Value>> results =
        inlineBody(function, {site.getQuery(), site.getKey(), site.getValue(), site.getCache(), site.getBatch()});
    if (failed(results)) {
      return failure();
    }
    site.replaceAllUsesWith(*results);
    site.erase();
    return success();
  }

private:
  FailureOr<SmallVector<Value>> inlineBody(func::FuncOp function, ValueRange arguments) {
    if (!active.insert(function).second) {
      return function.emitError() << "expects functions of a method that do not call themselves, but got a cycle",
             failure();
    }
    IRMapping mapping;
    mapping.map(function.getArguments(), arguments);
    SmallVector<Value> results;
    for (Operation &op : function.getBody().front()) {
      if (auto back = dyn_cast<func::ReturnOp>(op)) {
        for (Value value : back.getOperands()) {
          results.push_back(mapping.lookup(value));
        }
        break;
      }
      if (auto call = dyn_cast<func::CallOp>(op)) {
        // The verifier of calls has seen to it that the function exists.
        auto callee = method.getModule().lookupSymbol<func::FuncOp>(call.getCallee());
        SmallVector<Value> operands =
            llvm::map_to_vector(call.getOperands(), [&](Value v) { return mapping.lookup(v); });
        FailureOr<SmallVector<Value>> values = inlineBody(callee, operands);
        if (failed(values)) {
          return failure();
        }
        mapping.map(call.getResults(), *values);
        continue;
      }
      if (failed(copy(op, mapping))) {
        return failure();
      }
    }
    active.erase(function);
    return results;
  }

  LogicalResult copy(Operation &op, IRMapping &mapping) {
    if (auto rope = dyn_cast<RopeOp>(op); rope && rope.getRope().isSite() && !site.getRopeAttr()) {
      mapping.map(rope.getResult(), mapping.lookup(rope.getInput()));
      return success();
    }
    Operation *clone = b.clone(op, mapping);
    if (auto append = dyn_cast<AppendOp>(clone); append && append.getRopeAttr() && append.getRopeAttr().isSite()) {
      append.setRopeAttr(site.getRopeAttr());
    }
    if (isa<ParameterOp>(op)) {
      FailureOr<Value> value = createConstant(cast<ParameterOp>(clone));
      if (failed(value)) {
        return failure();
      }
      mapping.map(op.getResult(0), *value);
      return success();
    }
    SmallVector<ParameterOp> parameters;
    clone->walk([&](ParameterOp parameter) { parameters.push_back(parameter); });
    for (ParameterOp parameter : parameters) {
      if (failed(createConstant(parameter))) {
        return failure();
      }
    }
    replacer.recursivelyReplaceElementsIn(clone, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
    clone->walk([&](Operation *inner) { inner->setLoc(CallSiteLoc::get(inner->getLoc(), site.getLoc())); });
    LogicalResult fits = success();
    if (auto attention = dyn_cast<AttentionOp>(clone)) {
      fits = adapt(attention);
    }
    if (failed(fits) || failed(verify(clone))) {
      return emitError(op.getLoc()) << "method '" << method.name() << "' does not fit the site of layer "
                                    << site.getLayer() << " (" << site.getPhase() << ")";
    }
    return success();
  }

  /// The parameter's value as a constant in place of the op.
  FailureOr<Value> createConstant(ParameterOp op) {
    auto value = dyn_cast<TypedAttr>(method.parameter(op.getParam().getName(), site.getLayer()));
    if (!value || value.getType() != op.getResult().getType()) {
      auto diag = op.emitOpError() << "expects the type of the parameter '" << op.getParam().getName() << "', ";
      value ? diag << value.getType() : diag << "a string";
      return diag << ", but got " << op.getResult().getType(), failure();
    }
    OpBuilder at(op);
    Value constant = arith::ConstantOp::create(at, CallSiteLoc::get(op.getLoc(), site.getLoc()), value);
    op.replaceAllUsesWith(constant);
    op.erase();
    return constant;
  }

  /// A method's scale multiplies the site's; a window of the site narrows the method's.
  LogicalResult adapt(AttentionOp attention) {
    const double factor = attention.getScale().convertToDouble();
    attention.setScaleAttr(b.getF32FloatAttr(static_cast<float>(factor * site.getScale().convertToDouble())));
    Attribute window = site.getWindowAttr();
    if (!window) {
      return success();
    }
    if (getIntOr(attention.getSinksAttr(), 0)) {
      return attention.emitOpError() << "expects no sinks at a site whose model has a window, but got sinks "
                                     << getInt(attention.getSinksAttr());
    }
    if (!attention.getWindowAttr() || getInt(attention.getWindowAttr()) > getInt(window)) {
      attention.setWindowAttr(window);
    }
    return success();
  }

  const MethodFile &method;
  AttendOp site;
  OpBuilder b;
  std::map<SiteRole, Type> types;
  AttrTypeReplacer replacer;
  DenseSet<Operation *> active;
};
} // namespace

//===----------------------------------------------------------------------===//
// A module
//===----------------------------------------------------------------------===//

LogicalResult kvc::spliceMethod(ModuleOp graph, const MethodOptions &options) {
  Location at = graph.getLoc();
  CacheClasses classes;
  if (failed(classes.collect(graph))) {
    return failure();
  }
  if (classes.sites.empty() && options.method == MethodOptions().method) {
    return success(); // a module that speaks of caches itself: pipelines ask for the default method anyway
  }
  if (classes.sites.empty()) {
    return emitError(at) << "expects an attention site (kvcache.attend) for method '" << options.method
                         << "', but got none";
  }
  int64_t layers = 0;
  for (AttendOp site : classes.sites) {
    if (site.getLayer() < 0 || site.getLayer() >= 1 << 20) {
      return site.emitOpError() << "expects a layer of 0 to 1048575, but got " << site.getLayer();
    }
    layers = std::max<int64_t>(layers, site.getLayer() + 1);
  }

  FailureOr<MethodFile> method = MethodFile::load(at, options.method, options.folders);
  if (failed(method) || failed(method->bind(at, options.args, layers))) {
    return failure();
  }
  std::optional<MethodFile> dense;
  if (method->namesLayers()) {
    FailureOr<MethodFile> loaded = MethodFile::load(at, "dense", options.folders);
    if (failed(loaded)) {
      return failure();
    }
    dense = std::move(*loaded);
  }
  auto methodOf = [&](AttendOp site) -> const MethodFile & {
    return method->actsOn(site.getLayer()) ? *method : *dense;
  };

  // Types of the caches.
  llvm::MapVector<void *, SmallVector<Value>> caches = classes.ofSites();
  DenseMap<void *, std::pair<CacheType, AttendOp>> needed;
  for (AttendOp site : classes.sites) {
    FailureOr<CacheType> need =
        cacheTypeFor(methodOf(site), site, cast<CacheType>(site.getCache().getType()), options.chosen);
    if (failed(need)) {
      return failure();
    }
    auto [found, isNew] = needed.insert({classes.leader(site.getCache()), {*need, site}});
    if (!isNew && found->second.first != *need) {
      auto diag = site.emitOpError() << "expects sites of one cache whose methods need one type of cache, but got "
                                     << *need;
      diag.attachNote(found->second.second.getLoc()) << "here it is " << found->second.first;
      return diag;
    }
  }
  for (auto &[leader, values] : caches) {
    CacheType type = needed.at(leader).first;
    if (type == values.front().getType()) {
      continue;
    }
    for (auto [value, op] : classes.strangers) {
      if (classes.leader(value) == leader) {
        return op->emitOpError()
               << "expects caches of attention sites in kvcache operations and returns only, when a method "
                  "changes their type, but got one here";
      }
    }
    for (Value value : values) {
      value.setType(type);
    }
  }
  graph.walk([](func::FuncOp function) {
    if (function.isExternal()) {
      return;
    }
    Block &last = function.getBody().back();
    TypeRange results = last.getTerminator()->getOperandTypes();
    function.setType(FunctionType::get(function.getContext(), function.getBody().getArgumentTypes(), results));
  });

  for (AttendOp site : classes.sites) {
    if (failed(SiteSplicer(methodOf(site), site).run())) {
      return failure();
    }
  }
  graph->setAttr("kvc.method", StringAttr::get(graph.getContext(), method->name()));
  return success();
}

namespace {
struct SpliceMethodPass : kvc::impl::SpliceMethodPassBase<SpliceMethodPass> {
  using SpliceMethodPassBase::SpliceMethodPassBase;
  void runOnOperation() override {
    MethodOptions options{
        method, {args.begin(), args.end()}, {folders.begin(), folders.end()}, {chosen.begin(), chosen.end()}};
    if (failed(spliceMethod(getOperation(), options))) {
      signalPassFailure();
    }
  }
};
} // namespace

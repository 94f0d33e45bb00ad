//===- TypeReductions.cpp - Reductions of cache types and shapes ---------===//
#include "kvc/Dialect/KVCache/IR/KVCache.h"
#include "kvc/Reducer/Reducer.h"

#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace kvc::kvcache;
using namespace kvc::reducer;

/// The cache types of a module, in the order in which they are met.
static SmallVector<CacheType> cacheTypesOf(ModuleOp module) {
  llvm::SetVector<CacheType> found;
  AttrTypeWalker walker;
  walker.addWalk([&](CacheType type) { found.insert(type); });
  module.walk([&](Operation *op) {
    walker.walk(op->getAttrDictionary());
    for (Type type : op->getResultTypes()) {
      walker.walk(type);
    }
    for (Region &region : op->getRegions()) {
      for (Block &block : region) {
        for (Type type : block.getArgumentTypes()) {
          walker.walk(type);
        }
      }
    }
  });
  return found.takeVector();
}

static void replaceTypes(ModuleOp module, AttrTypeReplacer &replacer) {
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
}

namespace {
/// The fields of a cache type, to be changed one by one.
struct Fields {
  explicit Fields(CacheType type)
      : heads(type.getHeads()), kDim(type.getKDim()), vDim(type.getVDim()), page(type.getPage()), k(type.getK()),
        v(type.getV()), residual(type.getResidual()), tail(type.getTail()), stored(type.getStoredPositions()),
        perHead(type.getPerHead()), window(type.getWindow()), sinks(type.getSinks()), rope(type.getRope()),
        minmax(type.getMinmaxPlane()), score(type.getScorePlane()), norm(type.getNormPlane()),
        mean(type.getMeanPlane()), valueFrom(type.getValueFrom()) {}

  /// The type; null when the fields do not fit together.
  CacheType get(MLIRContext *context) const {
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    return CacheType::getChecked([&] { return emitError(UnknownLoc::get(context)); }, context, heads, kDim, vDim, page,
                                 k, valueFrom < 0 ? v : k, residual, tail, stored, perHead, window, sinks, rope, minmax,
                                 score, norm, mean, valueFrom);
  }

  int64_t heads, kDim, vDim, page;
  FormatAttr k, v;
  int64_t residual;
  Type tail;
  bool stored, perHead;
  int64_t window, sinks;
  RopeAttr rope;
  bool minmax, score, norm, mean;
  int64_t valueFrom;
};
} // namespace

/// Each makes a cache simpler in one respect.
static constexpr void (*simplifications[])(Fields &) = {
    [](Fields &f) {
      f.k = f.v = FormatAttr::getByName(f.k.getContext(), "f32");
      f.residual = 0;
    },
    [](Fields &f) { f.k = FormatAttr::getByName(f.k.getContext(), "f32"); },
    [](Fields &f) { f.v = FormatAttr::getByName(f.v.getContext(), "f32"); },
    [](Fields &f) { f.residual = 0; },
    [](Fields &f) { f.window = f.sinks = 0; },
    [](Fields &f) { f.stored = f.perHead = false; },
    [](Fields &f) { f.rope = {}; },
    [](Fields &f) { f.minmax = false; },
    [](Fields &f) { f.score = false; },
    [](Fields &f) { f.norm = false; },
    [](Fields &f) { f.mean = false; },
    [](Fields &f) { f.valueFrom = -1; },
    [](Fields &f) { f.page = 1; },
    [](Fields &f) { f.page = std::max<int64_t>(f.page / 2, 1); },
};

static bool simplifyCache(ModuleOp module, int64_t index) {
  constexpr int64_t count = std::size(simplifications);
  SmallVector<CacheType> types = cacheTypesOf(module);
  if (index >= static_cast<int64_t>(types.size()) * count) {
    return false;
  }
  CacheType from = types[index / count];
  Fields fields(from);
  simplifications[index % count](fields);
  if (CacheType to = fields.get(module.getContext())) {
    AttrTypeReplacer replacer;
    replacer.addReplacement([=](CacheType type) -> Type { return type == from ? to : type; });
    replaceTypes(module, replacer);
  }
  return true;
}

/// Replaces a size wherever rows, scores and dense keys have it: `axis` says which axes of a tensor are meant.
static void resize(ModuleOp module, int64_t from, int64_t to, bool channels,
                   llvm::function_ref<CacheType(CacheType)> cache) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](CacheType type) -> Type { return cache(type); });
  replacer.addReplacement([&](RankedTensorType type) -> Type {
    SmallVector<int64_t> shape(type.getShape());
    for (auto [axis, size] : llvm::enumerate(shape)) {
      bool last = axis + 1 == shape.size();
      bool meant = channels ? shape.size() >= 3 && last : axis > 0 || shape.size() == 1;
      if (meant && size == from && (channels || !last || shape.size() < 3)) {
        size = to;
      }
    }
    return type.clone(shape);
  });
  replaceTypes(module, replacer);
}

/// Halves the KV heads or the channels of all caches that have as many; query heads are halved by the next reduction.
static bool shrinkDims(ModuleOp module, int64_t index) {
  SmallVector<CacheType> types = cacheTypesOf(module);
  constexpr int64_t count = 3; // KV heads, key channels, value channels
  if (index >= static_cast<int64_t>(types.size()) * count) {
    return false;
  }
  Fields first(types[index / count]);
  int64_t which = index % count;
  int64_t from = which == 0 ? first.heads : which == 1 ? first.kDim : first.vDim;
  if (from == 1) {
    return true;
  }
  int64_t to = from / 2;
  resize(module, from, to, which != 0, [&](CacheType type) {
    Fields fields(type);
    if (which == 0) {
      fields.heads = fields.heads == from ? to : fields.heads;
    } else {
      fields.kDim = fields.kDim == from ? to : fields.kDim;
      fields.vDim = fields.vDim == from ? to : fields.vDim;
    }
    CacheType smaller = fields.get(type.getContext());
    return smaller ? smaller : type;
  });
  return true;
}

/// Halves the query heads of an attention, and every axis of heads of that size.
static bool shrinkQueryHeads(ModuleOp module, int64_t index) {
  llvm::SetVector<int64_t> heads;
  module.walk([&](AttentionOp op) {
    if (auto query = dyn_cast<RankedTensorType>(op.getQuery().getType())) {
      heads.insert(query.getDimSize(1));
    }
  });
  if (index >= static_cast<int64_t>(heads.size())) {
    return false;
  }
  if (int64_t from = heads[index]; from > 1) {
    resize(module, from, from / 2, false, [](CacheType type) { return type; });
  }
  return true;
}

ArrayRef<Reduction> kvc::reducer::getTypeReductions() {
  static constexpr Reduction reductions[] = {
      {"simplify-cache", simplifyCache}, {"shrink-query-heads", shrinkQueryHeads}, {"shrink-dims", shrinkDims}};
  return reductions;
}

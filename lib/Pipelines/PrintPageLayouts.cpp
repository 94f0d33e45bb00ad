//===- PrintPageLayouts.cpp - What lies where in pages, for people --------===//
#include "kvc/Pipelines/Pipelines.h"
#include "kvc/Target/PageLayout.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace kvc {
#define GEN_PASS_DEF_PRINTPAGELAYOUTSPASS
#include "kvc/Pipelines/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
/// A run of bytes of a head block.
struct Part {
  std::string name;
  int64_t begin, bytes;
  std::string note;
};

void addPlane(SmallVectorImpl<Part> &parts, StringRef name, const PlaneLayout &plane) {
  auto note = plane.packed     ? llvm::formatv("packed, units of {0}", plane.pack).str()
              : plane.pairs    ? llvm::formatv("plain rows, units of {0}, neighbours 16 bits apart", plane.pack).str()
              : plane.pack > 1 ? llvm::formatv("plain rows, units of {0}", plane.pack).str()
                               : std::string("plain rows");
  parts.push_back({(name + " codes").str(), plane.codes, plane.codeBytes(), note});
  int64_t scaleBytes = plane.scaleCount() * plane.scaleBytes;
  std::string count = llvm::formatv("{0} of {1} bytes", plane.scaleCount(), plane.scaleBytes).str();
  if (plane.scales >= 0) {
    parts.push_back({(name + " scales").str(), plane.scales, scaleBytes, count});
  }
  if (plane.zeros >= 0) {
    parts.push_back({(name + " zeros").str(), plane.zeros, scaleBytes, count});
  }
}

SmallVector<Part> partsOf(kvcache::CacheType type, const PageLayout &layout) {
  SmallVector<Part> parts;
  addPlane(parts, "K", layout.k);
  addPlane(parts, "V", layout.v);
  auto numbers = [&](StringRef name, int64_t begin, int64_t count, StringRef note) {
    if (begin >= 0) {
      parts.push_back({name.str(), begin, count * 4, note.str()});
    }
  };
  numbers("positions", layout.positions, type.getPage(), "i32 of each slot");
  numbers("scores", layout.scores, type.getPage(), "f32 of each slot");
  numbers("norms", layout.norms, type.getPage(), "f32 of each slot");
  numbers("min", layout.min, type.getKDim(), "f32 of each channel");
  numbers("max", layout.max, type.getKDim(), "f32 of each channel");
  return parts;
}

struct PrintPageLayoutsPass : kvc::impl::PrintPageLayoutsPassBase<PrintPageLayoutsPass> {
  using PrintPageLayoutsPassBase::PrintPageLayoutsPassBase;

  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target) {
      getOperation().emitError() << "expects a target, the attribute " << tile::TileDialect::targetAttr
                                 << ", but got none: run kvc-set-target before";
      return signalPassFailure();
    }
    llvm::SetVector<kvcache::CacheType> types;
    AttrTypeWalker walker;
    walker.addWalk([&](kvcache::CacheType type) { types.insert(type); });
    getOperation().walk([&](Operation *op) {
      walker.walk(op->getAttrDictionary());
      for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
        walker.walk(type);
      }
    });
    for (kvcache::CacheType type : types) {
      if (StringRef field = type.getUnsupportedField(); !field.empty()) {
        getOperation().emitWarning() << "a cache with " << field << " has no layout yet: " << type;
        continue;
      }
      PageLayout layout = computePageLayout(type, *target);
      json ? printJSON(type, *target, layout) : printTable(type, *target, layout);
    }
  }

  static void printTable(kvcache::CacheType type, const Target &target, const PageLayout &layout) {
    llvm::raw_ostream &os = llvm::outs();
    os << type << " on " << target.name << '\n';
    for (const Part &part : partsOf(type, layout)) {
      os << llvm::formatv("{0,8} {1,8}  {2}: {3}\n", part.begin, part.bytes, part.name, part.note);
    }
    os << llvm::formatv("  a head block has {0} bytes, a page {1} of them: {2} bytes\n", layout.headBlockBytes,
                        layout.headsPerPage, layout.pageBytes);
    if (layout.tailSlots) {
      os << llvm::formatv("  the tail of a table has {0} slots: {1} bytes\n", layout.tailSlots, layout.tailBytes);
    }
  }

  static void printJSON(kvcache::CacheType type, const Target &target, const PageLayout &layout) {
    llvm::json::Array parts;
    for (const Part &part : partsOf(type, layout)) {
      parts.push_back(
          llvm::json::Object{{"name", part.name}, {"begin", part.begin}, {"bytes", part.bytes}, {"note", part.note}});
    }
    std::string text;
    llvm::raw_string_ostream(text) << type;
    llvm::outs() << llvm::json::Value(llvm::json::Object{{"type", text},
                                                         {"target", target.name},
                                                         {"page", type.getPage()},
                                                         {"parts", std::move(parts)},
                                                         {"head_block_bytes", layout.headBlockBytes},
                                                         {"heads_per_page", layout.headsPerPage},
                                                         {"page_bytes", layout.pageBytes},
                                                         {"tail_slots", layout.tailSlots},
                                                         {"tail_bytes", layout.tailBytes}})
                 << '\n';
  }
};
} // namespace

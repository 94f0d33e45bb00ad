//===- Target.cpp - The table of targets ----------------------------------===//
#include "kvc/Target/Target.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/BuiltinOps.h"

using namespace kvc;

// Limits of compute capabilities as the CUDA C++ programming guide lists them; processors: A100, RTX 3090, AGX Orin,
// L4, H100 SXM, B200, RTX 5090.
static constexpr TeamFacts sm80{32, 1024, 163 << 10, 164 << 10, 65536, 255, 108, false, "", 0, 0, 0};
static constexpr TeamFacts sm86{32, 1024, 99 << 10, 100 << 10, 65536, 255, 82, false, "", 0, 0, 0};
static constexpr TeamFacts sm87{32, 1024, 163 << 10, 164 << 10, 65536, 255, 16, false, "", 0, 0, 0};
static constexpr TeamFacts sm89{32, 1024, 99 << 10, 100 << 10, 65536, 255, 58, true, "", 0, 0, 0};
static constexpr TeamFacts sm90{32, 1024, 227 << 10, 228 << 10, 65536, 255, 132, true, "m64k16", 4, 40, 232};
static constexpr TeamFacts sm100{32, 1024, 227 << 10, 228 << 10, 65536, 255, 148, true, "", 0, 0, 0};
static constexpr TeamFacts sm120{32, 1024, 99 << 10, 100 << 10, 65536, 255, 170, true, "", 0, 0, 0};

// CDNA and RDNA instruction set manuals, and LLVM's AMDGPU usage guide; processors (compute units): MI250X (one die),
// MI300X, MI355X, RX 7900 XTX, Radeon 8060S, RX 9070 XT.
static constexpr TeamFacts cdna(int64_t stagingBytes, int64_t processors, bool mmaF8, int64_t dies) {
  return {64, 1024, stagingBytes,   stagingBytes, 131072,        512,  processors, mmaF8, "",  0,
          0,  0,    "m16n16k16w64", false,        "m32n32k8w64", true, false,      false, dies};
}
static constexpr TeamFacts withSteps(TeamFacts facts) {
  facts.pairsSteps = facts.stagesRows = true;
  return facts;
}
static constexpr TeamFacts rdna(int64_t processors, bool mmaF8, llvm::StringLiteral atom) {
  return {32, 1024, 64 << 10, 64 << 10, 98304, 256, processors, mmaF8, "", 0, 0, 0, atom, false};
}
static constexpr TeamFacts gfx90a = cdna(64 << 10, 110, false, 1), gfx942 = cdna(64 << 10, 304, true, 8),
                           gfx950 = withSteps(cdna(160 << 10, 256, true, 8)),
                           gfx1100 = rdna(96, false, "m16n16k16w32x2"), gfx1151 = rdna(40, false, "m16n16k16w32x2"),
                           gfx1201 = rdna(64, true, "m16n16k16w32");

// Two halves make a word by one permutation of bytes, not by two moves of halves.
static constexpr llvm::StringLiteral rdnaFeatures = "-real-true16";

static constexpr Target targetTable[] = {
    {"x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", 8, 1, 4, 4, 2, 512 << 10},
    {"x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", 16, 1, 4, 8, 2, 1 << 20},
    {"x86-64-v4-bf16", "x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512bf16,+avx512vnni,-prefer-256-bit", 16, 2, 4, 8,
     2, 1 << 20},
    {"aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 4, 1, 4, 8, 2, 512 << 10},
    {"sm_80", "nvptx64-nvidia-cuda", "sm_80", "+ptx80", 16, 1, 4, 4, 4, 64 << 10, &sm80},
    {"sm_86", "nvptx64-nvidia-cuda", "sm_86", "+ptx80", 16, 1, 4, 4, 4, 64 << 10, &sm86},
    {"sm_87", "nvptx64-nvidia-cuda", "sm_87", "+ptx80", 16, 1, 4, 4, 4, 64 << 10, &sm87},
    {"sm_89", "nvptx64-nvidia-cuda", "sm_89", "+ptx81", 16, 1, 4, 4, 4, 64 << 10, &sm89},
    {"sm_90a", "nvptx64-nvidia-cuda", "sm_90a", "+ptx80", 16, 1, 4, 4, 4, 64 << 10, &sm90},
    {"sm_100a", "nvptx64-nvidia-cuda", "sm_100a", "+ptx87", 16, 1, 4, 4, 4, 64 << 10, &sm100},
    {"sm_103a", "nvptx64-nvidia-cuda", "sm_103a", "+ptx88", 16, 1, 4, 4, 4, 64 << 10, &sm100},
    {"sm_120", "nvptx64-nvidia-cuda", "sm_120", "+ptx87", 16, 1, 4, 4, 4, 64 << 10, &sm120},
    {"gfx90a", "amdgcn-amd-amdhsa", "gfx90a", "", 16, 1, 4, 4, 4, 16 << 10, &gfx90a},
    {"gfx942", "amdgcn-amd-amdhsa", "gfx942", "", 16, 1, 4, 4, 4, 32 << 10, &gfx942},
    {"gfx950", "amdgcn-amd-amdhsa", "gfx950", "", 16, 1, 4, 4, 4, 32 << 10, &gfx950},
    {"gfx1100", "amdgcn-amd-amdhsa", "gfx1100", rdnaFeatures, 16, 1, 4, 4, 4, 32 << 10, &gfx1100},
    {"gfx1151", "amdgcn-amd-amdhsa", "gfx1151", rdnaFeatures, 16, 1, 4, 4, 4, 32 << 10, &gfx1151},
    {"gfx1201", "amdgcn-amd-amdhsa", "gfx1201", rdnaFeatures, 16, 1, 4, 4, 4, 32 << 10, &gfx1201},
};

llvm::ArrayRef<Target> kvc::getTargets() { return targetTable; }

const Target *kvc::lookupTarget(llvm::StringRef name) {
  for (const Target &target : targetTable) {
    if (target.name == name) {
      return &target;
    }
  }
  return nullptr;
}

const Target *kvc::getTargetOf(mlir::Operation *op) {
  auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
  if (!module) {
    module = op->getParentOfType<mlir::ModuleOp>();
  }
  auto name = module ? module->getAttrOfType<mlir::StringAttr>(tile::TileDialect::targetAttr) : mlir::StringAttr();
  return name ? lookupTarget(name.getValue()) : nullptr;
}

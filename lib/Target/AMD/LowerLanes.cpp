//===- LowerLanes.cpp - Lanes, waves and matrix units as instructions ----===//
#include "Copies.h"
#include "LaneNumbers.h"
#include "Order.h"

#include "kvc/Target/AMD/Passes.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/LLVM/TeamKernels.h"
#include "kvc/Target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

namespace kvc {
#define GEN_PASS_DEF_AMDLOWERLANESPASS
#include "kvc/Target/AMD/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
constexpr LaneMathIntrinsics laneMath{"llvm.amdgcn.exp2.f32", "llvm.amdgcn.log.f32", "llvm.amdgcn.rcp.f32"};

/// The instruction of a row of the table of atoms.
struct MmaInstruction {
  StringLiteral atom, intrinsic;
  /// Whether bf16 operands are of that type, or of integers.
  bool takesBF16;
  /// Operands behind the accumulator that change nothing.
  unsigned zeros;
};
constexpr MmaInstruction instructions[] = {
    {"m16n16k16w64.f16", "llvm.amdgcn.mfma.f32.16x16x16f16", false, 3},
    {"m16n16k16w64.bf16", "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", false, 3},
    {"m16n16k32w64.f16", "llvm.amdgcn.mfma.f32.16x16x32.f16", false, 3},
    {"m16n16k32w64.bf16", "llvm.amdgcn.mfma.f32.16x16x32.bf16", true, 3},
    {"m32n32k8w64.f16", "llvm.amdgcn.mfma.f32.32x32x8f16", false, 3},
    {"m32n32k8w64.bf16", "llvm.amdgcn.mfma.f32.32x32x8bf16.1k", false, 3},
    {"m32n32k16w64.f16", "llvm.amdgcn.mfma.f32.32x32x16.f16", false, 3},
    {"m32n32k16w64.bf16", "llvm.amdgcn.mfma.f32.32x32x16.bf16", true, 3},
    {"m16n16k16w32.f16", "llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16", false, 0},
    {"m16n16k16w32.bf16", "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16", false, 0},
    {"m16n16k16w32x2.f16", "llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", false, 0},
    {"m16n16k16w32x2.bf16", "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v16i16", false, 0},
};

/// Words that lanes hold from a kernel's entry on.
using HeldWords = std::map<std::pair<Operation *, int64_t>, Value>;

/// Regions of staging memory, as scopes of aliases: what names different ones is never the same memory.
class Regions {
public:
  explicit Regions(MLIRContext *context) {
    auto domain = LLVM::AliasScopeDomainAttr::get(context);
    for (LLVM::AliasScopeAttr &scope : scopes) {
      scope = LLVM::AliasScopeAttr::get(domain);
    }
  }
  ArrayAttr own(int64_t region) const {
    return listOf([&](int64_t other) { return other == region; });
  }
  ArrayAttr others(int64_t region) const {
    return listOf([&](int64_t other) { return other != region; });
  }

private:
  ArrayAttr listOf(function_ref<bool(int64_t)> has) const {
    SmallVector<Attribute> list;
    for (auto [region, scope] : llvm::enumerate(scopes)) {
      if (has(static_cast<int64_t>(region))) {
        list.push_back(scope);
      }
    }
    return ArrayAttr::get(scopes[0].getContext(), list);
  }
  LLVM::AliasScopeAttr scopes[2];
};

class LaneLowering {
public:
  LaneLowering(Operation *op, const Target &target, HeldWords &heldWords, const Regions &regions)
      : op(op), target(target), facts(*target.team), heldWords(heldWords), regions(regions), b(op->getLoc(), op) {}

  LogicalResult run() {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](tile::LaneMmaOp op) { return lowerMma(op); })
        .Case([&](tile::CopyWarpOp op) { return lowerCopy(op); })
        .Case([&](tile::WaitWarpOp) {
          // The count of loads is 0, the others at their most.
          ROCDL::SWaitcntOp::create(b, b.getI32IntegerAttr(0x0f70));
          return erase();
        })
        .Case([&](tile::LoadTransposedOp op) { return lowerTransposed(op); })
        .Case([&](vector::LoadOp op) { return lowerStaged(op); })
        .Case([&](gpu::BarrierOp) { return lowerBarrier(); })
        .Case([&](gpu::ThreadIdOp op) {
          if (op.getDimension() != gpu::Dimension::x) {
            return LogicalResult(op.emitOpError() << "expects a team of one dimension");
          }
          Value id = ROCDL::ThreadIdXOp::create(b, b.getI32Type());
          return replace(arith::IndexCastUIOp::create(b, b.getIndexType(), id).getResult());
        })
        .Case([&](gpu::ShuffleOp op) { return lowerShuffle(op); })
        .Case([&](vector::TransferReadOp op) { return lowerRead(op); })
        .Case([&](memref::LoadOp op) { return lowerLoad(op); })
        .Case([&](arith::OrIOp op) { return lowerOr(op); })
        .Default([](Operation *op) {
          if (op->hasTrait<tile::LaneLevel>()) {
            return LogicalResult(op->emitOpError() << "has no lowering to AMD's GPUs yet");
          }
          return lowerLaneMath(op, laneMath);
        });
  }

private:
  LogicalResult erase() {
    op->erase();
    return success();
  }
  LogicalResult replace(ValueRange values) {
    op->replaceAllUsesWith(values);
    return erase();
  }
  Value word(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value))); }
  Value call(StringRef intrinsic, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr(intrinsic), operands).getResult(0);
  }

  /// What was written before is seen by the whole team behind it, in staging memory and elsewhere.
  LogicalResult lowerBarrier() {
    constexpr StringLiteral team = "workgroup";
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::release, team);
    // The fence waits for stores to LDS, but the compiler drops that where a barrier begins a loop whose body ends with
    // such stores.
    if (target.cpu.starts_with("gfx12")) {
      ROCDL::WaitDscntOp::create(b, b.getI16IntegerAttr(0));
    } else {
      // The count of LDS is 0, the others at their most.
      const int32_t counts = target.cpu.starts_with("gfx11") ? 0xfc07 : 0xc07f;
      ROCDL::SWaitcntOp::create(b, b.getI32IntegerAttr(counts));
    }
    ROCDL::SBarrierOp::create(b);
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acquire, team);
    return erase();
  }

  Value laneNumber() {
    Value lane = call("llvm.amdgcn.mbcnt.lo", {word(-1), word(0)});
    return facts.lanes > 32 ? call("llvm.amdgcn.mbcnt.hi", {word(-1), lane}) : lane;
  }

  /// The word of the lane whose number differs by exclusive or with `offset` < 32: by a modifier of a move where there
  /// is one, else through the unit of LDS.
  Value exchange(Value value, int64_t offset) {
    const bool isRdna = facts.lanes == 32;
    std::optional<int64_t> control;
    if (offset < 4) {
      // Which of four lanes each of four takes.
      control = 0;
      for (int64_t lane = 0; lane < 4; ++lane) {
        *control |= (lane ^ offset) << (2 * lane);
      }
    } else if (isRdna && offset < 16) {
      constexpr int64_t rowXmask = 0x160;
      control = rowXmask + offset;
    } else if (offset == 8) {
      constexpr int64_t rowRotate = 0x120; // by half a row of 16
      control = rowRotate + offset;
    }
    Value no = arith::ConstantOp::create(b, b.getBoolAttr(false)),
          yes = arith::ConstantOp::create(b, b.getBoolAttr(true));
    if (control) {
      constexpr int64_t allRows = 0xf, allBanks = 0xf;
      return call("llvm.amdgcn.update.dpp.i32", {word(0), value, word(*control), word(allRows), word(allBanks), yes});
    }
    if (isRdna && offset == 16) {
      // Lane i of a row takes lane i of the other one: eight numbers in each word.
      return call("llvm.amdgcn.permlanex16.i32", {word(0), value, word(0x76543210), word(0xfedcba98), no, no});
    }
    // Bits of the lane's number that stay, are set, are flipped.
    constexpr int64_t allStay = 0x1f, flipAt = 10;
    return call("llvm.amdgcn.ds.swizzle", {value, word(offset << flipAt | allStay)});
  }

  LogicalResult lowerShuffle(gpu::ShuffleOp op) {
    const bool isXor = op.getMode() == gpu::ShuffleMode::XOR;
    if ((!isXor && op.getMode() != gpu::ShuffleMode::IDX) || getConstantIntValue(op.getWidth()) != facts.lanes ||
        !op.getValid().use_empty()) {
      return op.emitOpError() << "other than of whole waves by xor or index has no lowering to AMD's GPUs yet";
    }
    Type type = op.getValue().getType();
    if (type.getIntOrFloatBitWidth() != 32) {
      return op.emitOpError() << "expects a word of 32 bits, but got " << type;
    }
    Value moved = type.isInteger() ? op.getValue() : arith::BitcastOp::create(b, b.getI32Type(), op.getValue());
    std::optional<int64_t> offset = getConstantIntValue(op.getOffset());
    if (!isXor && offset) {
      // The same in all lanes, and known to be.
      moved = call("llvm.amdgcn.readlane", {moved, word(*offset)});
    } else if (isXor && offset && *offset < 32) {
      moved = exchange(moved, *offset);
    } else {
      Value source = isXor ? arith::XOrIOp::create(b, laneNumber(), op.getOffset()).getResult() : op.getOffset();
      moved = call("llvm.amdgcn.ds.bpermute", {arith::ShLIOp::create(b, source, word(2)), moved});
    }
    op.getShuffleResult().replaceAllUsesWith(type.isInteger() ? moved
                                                              : arith::BitcastOp::create(b, type, moved).getResult());
    return erase();
  }

  /// What lanes know to be the same in all of them; that the compiler does not always see.
  Value uniform(Value word) {
    return LLVM::CallIntrinsicOp::create(b, word.getType(), b.getStringAttr("llvm.amdgcn.readfirstlane"), word)
        .getResult(0);
  }

  /// A number and what is added to it.
  static std::pair<Value, int64_t> split(Value number) {
    auto sum = number.getDefiningOp<arith::AddIOp>();
    const std::optional<int64_t> constant = sum ? getConstantIntValue(sum.getRhs()) : std::nullopt;
    return constant ? std::pair(sum.getLhs(), *constant) : std::pair(number, int64_t(0));
  }

  /// A pointer of that space with a descriptor: a buffer of a view's bytes, behind which the hardware reads zeros.
  Value bufferOf(memref::ReinterpretCastOp view, unsigned space) {
    // Data of 32 bits, addresses by offset alone.
    constexpr int32_t flags = 7 << 12 | 4 << 15;
    auto valueOf = [&](OpFoldResult number) { return getValueOrCreateConstantIndexOp(b, b.getLoc(), number); };
    auto uniformWord = [&](Value number) { return uniform(arith::IndexCastOp::create(b, b.getI64Type(), number)); };
    auto [start, further] = split(valueOf(view.getMixedOffsets().front()));
    Value begin = addressOf(b, view.getSource(), arith::ConstantIndexOp::create(b, further), 0, globalSpace);
    auto memory = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
    begin = LLVM::GEPOp::create(b, memory, b.getI8Type(), begin, ArrayRef<LLVM::GEPArg>{uniformWord(start)});
    Value size = uniformWord(valueOf(view.getMixedSizes().front()));
    Value stride = arith::ConstantOp::create(b, b.getI16IntegerAttr(0));
    return ROCDL::MakeBufferRsrcOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), space), begin, stride, size,
                                           word(flags));
  }

  /// Bytes of a view, with its end.
  LogicalResult lowerRead(vector::TransferReadOp op) {
    auto view = op.getBase().getDefiningOp<memref::ReinterpretCastOp>();
    const VectorType type = op.getVectorType();
    if (!view || type.getRank() != 1 || !type.getElementType().isInteger(8) || facts.lanes != 64) {
      return success();
    }
    // Pointers with a descriptor: what is known of an offset stays beside the load, whose instruction takes it.
    constexpr unsigned bufferSpace = 7;
    Value at = bufferOf(view, bufferSpace);
    auto pointer = LLVM::LLVMPointerType::get(b.getContext(), bufferSpace);
    auto [own, known] = split(op.getIndices().front());
    Value offset = arith::IndexCastOp::create(b, b.getI32Type(), own);
    at = LLVM::GEPOp::create(b, pointer, b.getI8Type(), at, ArrayRef<LLVM::GEPArg>{offset});
    at = LLVM::GEPOp::create(b, pointer, b.getI8Type(), at, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(known)});
    auto words = VectorType::get({type.getDimSize(0) / 4}, b.getI32Type());
    Value raw = LLVM::LoadOp::create(b, words, at, /*alignment=*/type.getDimSize(0));
    return replace(LLVM::BitcastOp::create(b, type, raw).getResult());
  }

  /// A load of the buffer's bytes to LDS: the instruction adds its own displacement to both addresses.
  LogicalResult lowerCopy(tile::CopyWarpOp op) {
    auto view = op.getSource().getDefiningOp<memref::ReinterpretCastOp>();
    if (!view || !facts.stagesRows) {
      return op.emitOpError() << "expects a view of pages and a machine that loads them to staging memory";
    }
    constexpr int64_t most = 4096, bytes = 16;
    const auto from = static_cast<int64_t>(op.getFromDisplacement()), own = from % most;
    Value to = addressOf(b, op.getTarget(), uniform(op.getTo()), static_cast<int64_t>(op.getToDisplacement()) - own,
                         sharedSpace);
    const auto region = static_cast<int64_t>(op.getRegion());
    constexpr unsigned resourceSpace = 8;
    ROCDL::RawPtrBufferLoadLdsOp::create(b, bufferOf(view, resourceSpace), to, word(bytes), op.getFrom(),
                                         word(from - own), word(own), word(0), regions.own(region),
                                         regions.others(region), ArrayAttr());
    return erase();
  }

  LogicalResult lowerTransposed(tile::LoadTransposedOp op) {
    if (!facts.stagesRows) {
      return op.emitOpError() << "expects a machine with transposed reads of staging memory";
    }
    Type element = cast<VectorType>(op.getLow().getType()).getElementType();
    const auto region = static_cast<int64_t>(op.getRegion());
    Value at = addressOf(b, op.getMemory(), op.getOffset(), static_cast<int64_t>(op.getDisplacement()), sharedSpace);
    Value all = ROCDL::ds_read_tr16_b64::create(b, VectorType::get({4}, element), at, regions.own(region),
                                                regions.others(region), ArrayAttr());
    SmallVector<Value, 2> halves;
    for (int64_t i : {0, 2}) {
      halves.push_back(vector::ExtractStridedSliceOp::create(b, all, i, 2, 1));
    }
    return replace(halves);
  }

  /// A load that names its region of staging memory.
  LogicalResult lowerStaged(vector::LoadOp op) {
    auto attribute = op->getAttrOfType<IntegerAttr>(tile::TileDialect::regionAttr);
    if (!attribute) {
      return success();
    }
    const int64_t region = attribute.getInt(), bytes = op.getVectorType().getNumElements();
    Value at = addressOf(b, op.getBase(), op.getIndices().front(), 0, sharedSpace);
    auto load = LLVM::LoadOp::create(b, op.getVectorType(), at, bytes);
    load.setAliasScopesAttr(regions.own(region));
    load.setNoaliasScopesAttr(regions.others(region));
    return replace(load.getResult());
  }

  /// Numbers of a parameter that the kernel only reads do not change while it runs: where all lanes load one, a scalar
  /// load does.
  LogicalResult lowerLoad(memref::LoadOp op) {
    Value memory = op.getMemRef();
    auto isRead = [](Operation *user) {
      return isa<memref::LoadOp, memref::DimOp, memref::ExtractStridedMetadataOp,
                 memref::ExtractAlignedPointerAsIndexOp>(user);
    };
    if (!op.getType().isInteger(32) || !isa<BlockArgument>(memory) ||
        !isa<func::FuncOp>(memory.getParentBlock()->getParentOp()) || !llvm::all_of(memory.getUsers(), isRead)) {
      return success();
    }
    // Dimension by dimension, so that what a loop does not change stays in front of it.
    constexpr int64_t bytes = 4;
    auto layout = memref::ExtractStridedMetadataOp::create(b, memory);
    auto pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
    Value address = addressOf(b, memory, arith::ConstantIndexOp::create(b, 0), 0, globalSpace);
    for (auto [index, stride] : llvm::zip_equal(op.getIndices(), layout.getStrides())) {
      Value place =
          arith::MulIOp::create(b, arith::MulIOp::create(b, index, stride), arith::ConstantIndexOp::create(b, bytes));
      Value offset = arith::IndexCastOp::create(b, b.getI64Type(), place);
      address = LLVM::GEPOp::create(b, pointer, b.getI8Type(), address, ArrayRef<LLVM::GEPArg>{offset});
    }
    return replace(LLVM::LoadOp::create(b, op.getType(), address, bytes, /*isVolatile=*/false,
                                        /*isNonTemporal=*/false, /*isInvariant=*/true)
                       .getResult());
  }

  /// (x & c) | d is one instruction, but takes only one constant on CDNA: a lane holds the other one.
  LogicalResult lowerOr(arith::OrIOp op) {
    auto isLiteral = [](Value value) {
      const std::optional<int64_t> constant = getConstantIntValue(value);
      return constant && (*constant < -16 || *constant > 64);
    };
    auto mask = op.getLhs().getDefiningOp<arith::AndIOp>();
    auto function = op->getParentOfType<func::FuncOp>();
    if (facts.lanes != 64 || !op.getType().isInteger(32) || !mask || !isLiteral(mask.getRhs()) ||
        !isLiteral(op.getRhs())) {
      return success();
    }
    const int64_t constant = *getConstantIntValue(op.getRhs());
    Value &held = heldWords[{function, constant}];
    if (!held) {
      OpBuilder entry(&function.getBody().front(), function.getBody().front().begin());
      const std::string text = "v_mov_b32 $0, " + std::to_string(constant);
      held = LLVM::InlineAsmOp::create(entry, op.getLoc(), op.getType(), ValueRange{}, text, "=v",
                                       /*has_side_effects=*/false, /*is_align_stack=*/false,
                                       LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
                 .getResult(0);
    }
    op.getRhsMutable().assign(held);
    return success();
  }

  /// The words of an operand as one vector of `element`.
  Value joinWords(ValueRange words, Type element) {
    SmallVector<Value> integers;
    for (Value value : words) {
      integers.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), value));
    }
    const auto count = static_cast<int64_t>(words.size());
    Value all = vector::FromElementsOp::create(b, VectorType::get({count}, b.getI32Type()), integers);
    auto type = VectorType::get({count * 32 / element.getIntOrFloatBitWidth()}, element);
    return LLVM::BitcastOp::create(b, type, all);
  }

  LogicalResult lowerMma(tile::LaneMmaOp op) {
    const MmaInstruction *instruction =
        llvm::find_if(instructions, [&](const MmaInstruction &row) { return row.atom == op.getAtom(); });
    if (instruction == std::end(instructions)) {
      return op.emitOpError() << "expects an atom with an instruction of AMD's GPUs, but got '" << op.getAtom() << "'";
    }
    const bool isHalf = op.getAtom().ends_with(".f16");
    Type element = isHalf ? Type(b.getF16Type()) : instruction->takesBF16 ? Type(b.getBF16Type()) : b.getI16Type();
    auto sums = VectorType::get({static_cast<int64_t>(op.getAcc().size())}, b.getF32Type());
    // The table's rows are those of the exchanged product: the instruction's first operand is B.
    SmallVector<Value> operands{joinWords(op.getB(), element), joinWords(op.getA(), element),
                                vector::FromElementsOp::create(b, sums, op.getAcc())};
    for (unsigned i = 0; i < instruction->zeros; ++i) {
      operands.push_back(word(0));
    }
    Value all = LLVM::CallIntrinsicOp::create(b, sums, b.getStringAttr(instruction->intrinsic), operands).getResult(0);
    SmallVector<Value> results;
    for (int64_t i = 0; i < sums.getDimSize(0); ++i) {
      results.push_back(vector::ExtractOp::create(b, all, i));
    }
    return replace(results);
  }

  Operation *op;
  const Target &target;
  const TeamFacts &facts;
  HeldWords &heldWords;
  const Regions &regions;
  ImplicitLocOpBuilder b;
};

struct AMDLowerLanesPass : kvc::impl::AMDLowerLanesPassBase<AMDLowerLanesPass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target || !target->team) {
      getOperation().emitOpError() << "expects a module with the attribute " << tile::TileDialect::targetAttr
                                   << " of a target whose lanes are threads";
      return signalPassFailure();
    }
    amd::lowerCopies(getOperation());
    if (target->team->lanes == 64) {
      amd::keepSumsFromBranches(getOperation(), *target);
    }
    if (target->team->readsInOrder()) {
      amd::keepReadsBehindProducts(getOperation());
      amd::loadInBatches(getOperation());
      amd::rebuildLaneNumbers(getOperation(), *target->team);
    }
    const Regions regions(&getContext());
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    HeldWords heldWords;
    for (Operation *op : ops) {
      if (failed(LaneLowering(op, *target, heldWords, regions).run())) {
        return signalPassFailure();
      }
    }
  }
};
} // namespace

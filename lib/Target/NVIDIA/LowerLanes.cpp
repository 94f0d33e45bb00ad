//===- LowerLanes.cpp - Lanes, warps and matrix units as instructions ----===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kvc {
#define GEN_PASS_DEF_NVIDIALOWERLANESPASS
#include "kvc/Target/NVIDIA/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
constexpr unsigned globalSpace = 1, sharedSpace = 3;

class LaneLowering {
public:
  explicit LaneLowering(Operation *op) : op(op), b(op->getLoc(), op) {}

  LogicalResult run() {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](tile::LaneMmaOp op) { return lowerMma(op); })
        .Case([&](tile::LoadMatricesOp op) { return lowerLoadMatrices(op); })
        .Case([&](tile::CopyAsyncOp op) { return lowerCopy(op); })
        .Case([&](tile::CommitAsyncOp) {
          NVVM::CpAsyncCommitGroupOp::create(b);
          return erase();
        })
        .Case([&](tile::WaitAsyncOp op) {
          NVVM::CpAsyncWaitGroupOp::create(b, static_cast<uint32_t>(op.getPending()));
          return erase();
        })
        .Case([&](gpu::BarrierOp) {
          NVVM::Barrier0Op::create(b);
          return erase();
        })
        .Case([&](gpu::ThreadIdOp op) {
          if (op.getDimension() != gpu::Dimension::x) {
            return LogicalResult(op.emitOpError() << "expects a team of one dimension");
          }
          Value id = NVVM::ThreadIdXOp::create(b, b.getI32Type());
          return replace(arith::IndexCastOp::create(b, b.getIndexType(), id).getResult());
        })
        .Case([&](gpu::ShuffleOp op) { return lowerShuffle(op); })
        .Case([&](math::Exp2Op op) { return lowerMath(op, "llvm.nvvm.ex2.approx.ftz", op.getOperand()); })
        .Case([&](math::Log2Op op) { return lowerMath(op, "llvm.nvvm.lg2.approx.ftz.f", op.getOperand()); })
        .Case([&](math::ExpOp op) {
          constexpr float log2e = 1.44269504088896341f;
          Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(log2e));
          return lowerMath(op, "llvm.nvvm.ex2.approx.ftz", arith::MulFOp::create(b, op.getOperand(), scale));
        })
        .Case([&](math::LogOp op) {
          constexpr float ln2 = 0.693147180559945309f;
          FailureOr<Value> log = call("llvm.nvvm.lg2.approx.ftz.f", op.getOperand());
          if (failed(log)) {
            return failure();
          }
          Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(ln2));
          return replace(arith::MulFOp::create(b, *log, scale).getResult());
        })
        .Case([&](math::TanhOp op) { return lowerTanh(op); })
        .Default([](Operation *) { return success(); });
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

  FailureOr<Value> call(StringRef intrinsic, Value x) {
    if (!x.getType().isF32()) {
      return op->emitOpError() << "expects f32, but got " << x.getType() << ": has no NVIDIA lowering yet";
    }
    return LLVM::CallIntrinsicOp::create(b, b.getF32Type(), b.getStringAttr(intrinsic), ValueRange{x}).getResult(0);
  }
  LogicalResult lowerMath(Operation *op, StringRef intrinsic, Value x) {
    FailureOr<Value> result = call(intrinsic, x);
    return failed(result) ? failure() : replace(*result);
  }

  /// sign(x) (1 - 2 / (exp(2 |x|) + 1)), within 3e-7: 1 where the exponential overflows.
  LogicalResult lowerTanh(math::TanhOp op) {
    constexpr float twoLog2e = 2.88539008177792681f;
    auto constant = [&](float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)).getResult(); };
    Value x = op.getOperand();
    if (!x.getType().isF32()) {
      return success();
    }
    Value scaled = arith::MulFOp::create(b, math::AbsFOp::create(b, x), constant(twoLog2e));
    FailureOr<Value> power = call("llvm.nvvm.ex2.approx.ftz", scaled);
    FailureOr<Value> inverse =
        call("llvm.nvvm.rcp.approx.ftz.f", arith::AddFOp::create(b, *power, constant(1.0f)).getResult());
    Value size = math::FmaOp::create(b, *inverse, constant(-2.0f), constant(1.0f));
    return replace(math::CopySignOp::create(b, size, x).getResult());
  }

  /// Address of byte `offset + displacement` of a memref of bytes.
  Value address(Value memory, Value offset, int64_t displacement, unsigned space) {
    Value base = memref::ExtractAlignedPointerAsIndexOp::create(b, memory);
    Value word = arith::IndexCastOp::create(b, b.getI64Type(), base);
    auto type = LLVM::LLVMPointerType::get(b.getContext(), space);
    Value pointer;
    if (space == sharedSpace) {
      pointer = LLVM::IntToPtrOp::create(b, type, word);
    } else {
      pointer = LLVM::IntToPtrOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), word);
      pointer = LLVM::AddrSpaceCastOp::create(b, type, pointer);
    }
    if (offset.getType().isIndex()) {
      offset = arith::IndexCastOp::create(b, b.getI64Type(), offset);
    }
    pointer = LLVM::GEPOp::create(b, type, b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{offset});
    if (displacement) {
      pointer = LLVM::GEPOp::create(b, type, b.getI8Type(), pointer,
                                    ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(displacement)});
    }
    return pointer;
  }

  /// As the instructions want it: pairs of f16, other pairs and quads as 32-bit integers.
  Value toRegister(Value word) {
    auto type = cast<VectorType>(word.getType());
    return type.getElementType().isF16() ? word : LLVM::BitcastOp::create(b, b.getI32Type(), word).getResult();
  }

  LogicalResult lowerMma(tile::LaneMmaOp op) {
    const MmaAtom *atom = lookupMmaAtom(op.getAtom());
    if (!atom) {
      return op.emitOpError() << "expects a row of the table of atoms, but got '" << op.getAtom() << "'";
    }
    auto toRegisters = [&](ValueRange values) {
      SmallVector<Value> registers;
      for (Value value : values) {
        registers.push_back(toRegister(value));
      }
      return registers;
    };
    const bool isInteger = atom->operand == AtomElement::I8;
    NVVM::MMATypes element = atom->operand == AtomElement::F16    ? NVVM::MMATypes::f16
                             : atom->operand == AtomElement::BF16 ? NVVM::MMATypes::bf16
                                                                  : NVVM::MMATypes::s8;
    Type number = isInteger ? Type(b.getI32Type()) : Type(b.getF32Type());
    auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(op.getResults().size(), number));
    auto mma =
        NVVM::MmaOp::create(b, type, toRegisters(op.getA()), toRegisters(op.getB()), op.getAcc(),
                            ArrayRef<int64_t>{atom->m, atom->n, atom->k}, std::nullopt,
                            isInteger ? std::optional(NVVM::MMAIntOverflow::wrapped) : std::nullopt,
                            std::array{element, element}, std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
    SmallVector<Value> results;
    for (int64_t i = 0; i < static_cast<int64_t>(op.getResults().size()); ++i) {
      results.push_back(LLVM::ExtractValueOp::create(b, mma.getRes(), ArrayRef<int64_t>{i}));
    }
    return replace(results);
  }

  LogicalResult lowerLoadMatrices(tile::LoadMatricesOp op) {
    const auto count = static_cast<uint32_t>(op.getResults().size());
    Type word = b.getI32Type();
    Type type = count == 1 ? word : LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, word));
    Value loaded =
        NVVM::LdMatrixOp::create(b, type, address(op.getMemory(), op.getOffset(), op.getDisplacement(), sharedSpace),
                                 count, op.getTransposed() ? NVVM::MMALayout::col : NVVM::MMALayout::row,
                                 NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
    SmallVector<Value> results;
    for (int64_t i = 0; i < count; ++i) {
      Value register32 =
          count == 1 ? loaded : LLVM::ExtractValueOp::create(b, loaded, ArrayRef<int64_t>{i}).getResult();
      results.push_back(LLVM::BitcastOp::create(b, op.getResult(i).getType(), register32));
    }
    return replace(results);
  }

  LogicalResult lowerCopy(tile::CopyAsyncOp op) {
    constexpr uint32_t bytes = 16;
    Value size;
    if (op.getValid()) {
      Value all = arith::ConstantOp::create(b, b.getI32IntegerAttr(bytes));
      size = arith::SelectOp::create(b, op.getValid(), all, arith::ConstantOp::create(b, b.getI32IntegerAttr(0)));
    }
    Value to = address(op.getTarget(), op.getTo(), op.getToDisplacement(), sharedSpace);
    Value from = address(op.getSource(), op.getFrom(), op.getFromDisplacement(), globalSpace);
    NVVM::CpAsyncOp::create(b, to, from, bytes, NVVM::LoadCacheModifierKind::CG, size);
    return erase();
  }

  LogicalResult lowerShuffle(gpu::ShuffleOp op) {
    std::optional<NVVM::ShflKind> kind;
    switch (op.getMode()) {
    case gpu::ShuffleMode::XOR:
      kind = NVVM::ShflKind::bfly;
      break;
    case gpu::ShuffleMode::IDX:
      kind = NVVM::ShflKind::idx;
      break;
    default:
      break;
    }
    constexpr int64_t lanes = 32;
    if (!kind || getConstantIntValue(op.getWidth()) != lanes || !op.getValid().use_empty()) {
      return op.emitOpError() << "other than of whole warps by xor or index has no NVIDIA lowering yet";
    }
    Value all = arith::ConstantOp::create(b, b.getI32IntegerAttr(-1));
    Value clamp = arith::ConstantOp::create(b, b.getI32IntegerAttr(lanes - 1));
    Value result =
        NVVM::ShflOp::create(b, op.getValue().getType(), all, op.getValue(), op.getOffset(), clamp, *kind, UnitAttr());
    op.getShuffleResult().replaceAllUsesWith(result);
    return erase();
  }

  Operation *op;
  ImplicitLocOpBuilder b;
};

struct NVIDIALowerLanesPass : kvc::impl::NVIDIALowerLanesPassBase<NVIDIALowerLanesPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops) {
      if (failed(LaneLowering(op).run())) {
        return signalPassFailure();
      }
    }
  }
};
} // namespace

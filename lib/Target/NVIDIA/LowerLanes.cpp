//===- LowerLanes.cpp - Lanes, warps and matrix units as instructions ----===//
#include "kvc/Target/NVIDIA/Passes.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/Atoms.h"
#include "kvc/Target/LLVM/TeamKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kvc {
#define GEN_PASS_DEF_NVIDIALOWERLANESPASS
#include "kvc/Target/NVIDIA/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {
constexpr LaneMathIntrinsics laneMath{"llvm.nvvm.ex2.approx.ftz", "llvm.nvvm.lg2.approx.ftz.f",
                                      "llvm.nvvm.rcp.approx.ftz.f"};

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
        .Case([&](tile::GroupMmaOp op) { return lowerGroupMma(op); })
        .Case([&](tile::GroupMmaWaitOp op) {
          std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
          SmallVector<Value> registers;
          for (Value value : op.getValues()) {
            registers.push_back(isa<VectorType>(value.getType()) ? LLVM::BitcastOp::create(b, b.getI32Type(), value)
                                                                 : value);
          }
          SmallVector<Value> waited = tied(text, registers, {}, "");
          for (auto [value, result] : llvm::zip_equal(waited, op.getResults())) {
            value = isa<VectorType>(result.getType()) ? LLVM::BitcastOp::create(b, result.getType(), value) : value;
          }
          return replace(waited);
        })
        .Case([&](tile::CopyBoxesOp op) { return lowerCopyBoxes(op); })
        .Case([&](tile::WarpBarrierOp) {
          NVVM::SyncWarpOp::create(b, arith::ConstantOp::create(b, b.getI32IntegerAttr(-1)));
          return erase();
        })
        .Case([&](tile::PublishOp) { return assembly("fence.proxy.async.shared::cta;", {}, ""); })
        .Case([&](tile::PhaseInitOp op) {
          std::string text = "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(op.getArrivals()) + ";";
          return assembly(text, {address(op.getMemory(), op.getOffset(), op.getDisplacement(), sharedSpace)}, "r");
        })
        .Case([&](tile::PhaseArriveOp op) {
          Value at = address(op.getMemory(), op.getOffset(), op.getDisplacement(), sharedSpace);
          return assembly(op.getAfterCopies() ? "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];"
                                              : "mbarrier.arrive.shared::cta.b64 _, [$0];",
                          {at}, "r");
        })
        .Case([&](tile::PhaseWaitOp op) {
          Value at = address(op.getMemory(), op.getOffset(), op.getDisplacement(), sharedSpace);
          // A try gives up after a while.
          return assembly("{\n.reg .pred over;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 over, [$0], $1;\n"
                          "@!over bra again;\n}",
                          {at, op.getParity()}, "r,r");
        })
        .Case([&](tile::PartBarrierOp op) {
          std::string text = "bar.sync " + std::to_string(op.getId()) + ", " + std::to_string(op.getLanes()) + ";";
          return assembly(text, {}, "");
        })
        .Case([&](tile::SetRegistersOp op) {
          std::string text = std::string("setmaxnreg.") + (op.getMore() ? "inc" : "dec") + ".sync.aligned.u32 " +
                             std::to_string(op.getCount()) + ";";
          return assembly(text, {}, "");
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
        .Case([&](gpu::SubgroupReduceOp op) {
          if (op.getOp() != gpu::AllReduceOperation::OR || !op.getType().isInteger(1) || op.getClusterSize()) {
            return LogicalResult(op.emitOpError()
                                 << "other than whether a condition holds in any lane of a warp has no "
                                    "NVIDIA lowering yet");
          }
          Value all = arith::ConstantOp::create(b, b.getI32IntegerAttr(-1));
          return replace(
              NVVM::VoteSyncOp::create(b, b.getI1Type(), all, op.getValue(), NVVM::VoteSyncKind::any).getResult());
        })
        .Case([&](arith::OrIOp op) { return lowerMaskedOr(op); })
        .Default([](Operation *op) { return lowerLaneMath(op, laneMath); });
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

  /// Instructions that act on memory and give nothing.
  LogicalResult assembly(StringRef text, ValueRange operands, StringRef constraints) {
    std::string all = constraints.str() + (constraints.empty() ? "" : ",") + "~{memory}";
    inlineAssembly(TypeRange(), operands, text, all);
    return erase();
  }
  LLVM::InlineAsmOp inlineAssembly(TypeRange results, ValueRange operands, StringRef text, StringRef constraints) {
    return LLVM::InlineAsmOp::create(b, results, operands, text, constraints, /*has_side_effects=*/true,
                                     /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                     ArrayAttr());
  }
  /// Instructions on registers (f32 and i32) that are read and written, then on `others`; outputs come first.
  SmallVector<Value> tied(StringRef text, ValueRange registers, ValueRange others, StringRef constraints) {
    std::string all;
    for (Value value : registers) {
      all += value.getType().isF32() ? "=f," : "=r,";
    }
    all += constraints.str() + (constraints.empty() ? "" : ",");
    for (size_t i = 0; i < registers.size(); ++i) {
      all += std::to_string(i) + ",";
    }
    SmallVector<Value> operands(others);
    llvm::append_range(operands, registers);
    return results(text, operands, all + "~{memory}", llvm::to_vector(registers.getTypes()));
  }
  SmallVector<Value> results(StringRef text, ValueRange operands, StringRef constraints, ArrayRef<Type> types) {
    auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), types);
    Value all = inlineAssembly(Type(type), operands, text, constraints).getResult(0);
    SmallVector<Value> values;
    for (int64_t i = 0; i < static_cast<int64_t>(types.size()); ++i) {
      values.push_back(LLVM::ExtractValueOp::create(b, all, ArrayRef<int64_t>{i}));
    }
    return values;
  }

  Value sharedAddress(Value memory, Value offset) {
    return LLVM::PtrToIntOp::create(b, b.getI32Type(), address(memory, offset, 0, sharedSpace));
  }
  /// Low word of a matrix descriptor: the address and, of operands whose rows lie across the summed dimension, the
  /// distance of panels, in units of 16 bytes.
  Value descriptor(Value memory, Value offset, int64_t panel) {
    Value place =
        arith::ShRUIOp::create(b, sharedAddress(memory, offset), arith::ConstantOp::create(b, b.getI32IntegerAttr(4)));
    Value leading = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(panel / 16 << 16)));
    return arith::OrIOp::create(b, place, leading);
  }

  /// Lanes tell each other where boxes begin, and one of them starts the copies. It says before how many bytes the
  /// barrier waits for. Coordinates are asked for here, behind the wait for the stage: held over it they are moved
  /// between kinds of registers and back.
  LogicalResult lowerCopyBoxes(tile::CopyBoxesOp op) {
    SmallVector<Value> inputs{sharedAddress(op.getMemory(), op.getTo()), sharedAddress(op.getMemory(), op.getBarrier()),
                              arith::IndexCastOp::create(b, b.getI64Type(), op.getMap()), op.getBlock()};
    std::string constraints = "r,r,l,r", text;
    if (op.getGroup()) {
      inputs.push_back(op.getGroup());
      constraints += ",r";
    }
    const int64_t count = op.getCount(), barrier = op.getDisplacement();
    llvm::raw_string_ostream os(text);
    os << "{\n.reg .pred one;\n.reg .b32 zero, block<" << count << ">, group<" << count << ">;\n";
    for (int64_t i = 0; i < count; ++i) {
      os << "shfl.sync.idx.b32 block" << i << ", $3, " << i << ", 31, -1;\n";
      if (op.getGroup()) {
        os << "shfl.sync.idx.b32 group" << i << ", $4, " << i << ", 31, -1;\n";
      }
    }
    os << "mov.b32 zero, 0;\nelect.sync _|one, -1;\n@!one bra started;\n"
       << "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1+" << barrier << "], " << count * op.getBytes() << ";\n";
    for (int64_t i = 0; i < count; ++i) {
      os << "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0+" << i * op.getBytes()
         << "], [$2, {zero, zero, zero, " << (op.getGroup() ? "group" + std::to_string(i) : "zero") << ", block" << i
         << "}], [$1+" << barrier << "];\n";
    }
    os << "started:\n}";
    return assembly(text, inputs, constraints);
  }

  /// All steps of a product in one piece, so that nothing comes between them: the fence, which orders what was written
  /// to registers before, the products, the end of their group.
  LogicalResult lowerGroupMma(tile::GroupMmaOp op) {
    constexpr int64_t stepBytes = 32, stepRows = 16, rowGroup = 8;
    const GroupMmaAtom *atom = lookupGroupMmaAtom(op.getAtom());
    const int64_t count = static_cast<int64_t>(op.getResults().size()), steps = op.getSteps(),
                  swizzle = op.getSwizzle();
    if (!atom || count % 4 || count * 2 > atom->maxN) {
      return op.emitOpError() << "expects a row of the table of group atoms and at most its columns, but got '"
                              << op.getAtom() << "' with " << count * 2;
    }
    const bool fromMemory = op.getA().empty(), accumulates = !op.getAcc().empty();
    if (!fromMemory && static_cast<int64_t>(op.getA().size()) != steps * 4) {
      return op.emitOpError() << "expects " << steps * 4 << " registers of its first operand, but got "
                              << op.getA().size();
    }
    // High word of a descriptor: distance of groups of eight rows, and the swizzle.
    const int64_t panelBytes = rowGroup * swizzle;
    auto high = [&](int64_t panels) {
      return panels * panelBytes / 16 | (swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3) << 30;
    };
    SmallVector<Value> inputs;
    std::string constraints;
    auto add = [&](Value value) {
      inputs.push_back(value);
      constraints += constraints.empty() ? "r" : ",r";
      return "$" + std::to_string(count + static_cast<int64_t>(inputs.size()) - 1);
    };
    SmallVector<std::string> words;
    for (Value word : op.getA()) {
      words.push_back(add(LLVM::BitcastOp::create(b, b.getI32Type(), word)));
    }
    std::string a = fromMemory ? add(descriptor(op.getMemory(), op.getAOffset(), 0)) : "";
    std::string second = add(descriptor(op.getMemory(), op.getBOffset(), op.getTransposed() ? panelBytes : 0));
    std::string sums;
    for (int64_t i = 0; i < count; ++i) {
      sums += (i ? ", $" : "$") + std::to_string(i);
    }
    const StringRef type = op.getAtom().rsplit('.').second;
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "{\n.reg .b32 ahigh, bhigh;\n.reg .b64 a, b;\nmov.b32 bhigh, " << high(op.getBPanels()) << ";\n";
    if (fromMemory) {
      os << "mov.b32 ahigh, " << high(op.getAPanels()) << ";\n";
    }
    os << "wgmma.fence.sync.aligned;\n";
    // Steps add to all 64 bits: the assembler sees that the high word stays, and does not make it anew for each
    // product.
    auto describe = [&](StringRef name, StringRef low, int64_t bytes, int64_t &last) {
      if (last < 0) {
        os << "mov.b64 " << name << ", {" << low << ", " << name << "high};\n";
      } else {
        os << "add.s64 " << name << ", " << name << ", " << (bytes - last) / 16 << ";\n";
      }
      last = bytes;
    };
    int64_t lastA = -1, lastB = -1;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t alongRow = step * stepBytes / swizzle * panelBytes + step * stepBytes % swizzle;
      if (fromMemory) {
        describe("a", a, alongRow, lastA);
      }
      describe("b", second, op.getTransposed() ? step * stepRows * swizzle * op.getBPanels() : alongRow, lastB);
      os << "wgmma.mma_async.sync.aligned.m64n" << count * 2 << "k16.f32." << type << "." << type << " {" << sums
         << "}, ";
      if (fromMemory) {
        os << "a";
      } else {
        os << "{" << llvm::join(ArrayRef<std::string>(words).slice(step * 4, 4), ", ") << "}";
      }
      // Whether it adds, signs of A and B, whether A (of memory) and B lie transposed.
      os << ", b, " << (accumulates || step ? 1 : 0) << ", 1, 1" << (fromMemory ? ", 0" : "") << ", "
         << (op.getTransposed() ? 1 : 0) << ";\n";
    }
    os << "wgmma.commit_group.sync.aligned;\n}";
    if (accumulates) {
      return replace(tied(text, op.getAcc(), inputs, constraints));
    }
    std::string outputs;
    for (int64_t i = 0; i < count; ++i) {
      outputs += "=f,";
    }
    return replace(
        results(text, inputs, outputs + constraints + ",~{memory}", SmallVector<Type>(count, b.getF32Type())));
  }

  Value address(Value memory, Value offset, int64_t displacement, unsigned space) {
    return addressOf(b, memory, offset, displacement, space);
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

  /// x & mask | bits, one instruction where both are known: the assembler makes two, as each takes one constant alone.
  LogicalResult lowerMaskedOr(arith::OrIOp op) {
    auto masked = op.getLhs().getDefiningOp<arith::AndIOp>();
    if (!op.getType().isInteger(32) || !masked || !masked->hasOneUse() || !getConstantIntValue(masked.getRhs()) ||
        !getConstantIntValue(op.getRhs())) {
      return success();
    }
    // The table of a & b | c.
    auto lop3 = LLVM::InlineAsmOp::create(b, b.getI32Type(), ValueRange{masked.getLhs(), masked.getRhs(), op.getRhs()},
                                          "lop3.b32 $0, $1, $2, $3, 0xea;", "=r,r,n,r", /*has_side_effects=*/false,
                                          /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                          ArrayAttr());
    op.replaceAllUsesWith(lop3.getResult(0));
    op.erase();
    masked.erase();
    return success();
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

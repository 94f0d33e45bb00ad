//===- TeamKernels.cpp - The interface of kernels of teams ----------------===//
#include "kvc/Target/LLVM/TeamKernels.h"

#include "kvc/Dialect/Tile/IR/Lanes.h"
#include "kvc/Target/LLVM/KernelWords.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace kvc;

/// Swizzles and copies of shared memory want its start at a multiple of this.
static constexpr uint64_t sharedAlignment = 1024;

namespace {
/// Words that are parameters, eight bytes each.
class ParameterWords : public KernelWords {
public:
  ParameterWords(ImplicitLocOpBuilder &b, ValueRange values, const LLVMTypeConverter &types)
      : KernelWords(b, types), values(values) {}

protected:
  Value next(Type type) override {
    Value word = values[count++];
    if (word.getType() == type) {
      return word;
    }
    if (isa<LLVM::LLVMPointerType>(type)) {
      return LLVM::AddrSpaceCastOp::create(b, type, word);
    }
    Value low = arith::TruncIOp::create(b, b.getI32Type(), word);
    return type.isF32() ? arith::BitcastOp::create(b, type, low).getResult() : low;
  }

private:
  ValueRange values;
  size_t count = 0;
};

class TeamWrapper {
public:
  TeamWrapper(ModuleOp module, const TeamInterface &interface)
      : module(module), interface(interface), types(module.getContext()) {}

  LogicalResult wrap(func::FuncOp kernel) {
    auto team = kernel->getAttrOfType<IntegerAttr>(tile::TileDialect::teamAttr);
    if (!team) {
      return kernel.emitOpError() << "expects the attribute " << tile::TileDialect::teamAttr
                                  << ", the lanes of a team, but got none";
    }
    SmallVector<Type> parameters;
    for (Type type : kernel.getArgumentTypes().drop_back()) {
      appendParameters(type, parameters);
    }
    // Maps of boxes follow the words.
    auto boxes = kernel->getAttrOfType<ArrayAttr>(tile::TileDialect::boxesAttr);
    const size_t mapCount = boxes ? boxes.size() : 0;
    parameters.append(mapCount, LLVM::LLVMPointerType::get(module.getContext(), interface.pointerSpace));
    if (mapCount && !interface.markMap) {
      return kernel.emitOpError() << "expects no boxes: the target's copies have none";
    }
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
    placeStaging(kernel);
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), parameters);
    auto entry = LLVM::LLVMFuncOp::create(b, renameToBody(kernel), type);
    for (size_t i = parameters.size() - mapCount; i < parameters.size(); ++i) {
      interface.markMap(entry, static_cast<unsigned>(i));
    }
    interface.mark(entry, kernel, team.getInt());
    b.setInsertionPointToStart(entry.addEntryBlock(b));
    ParameterWords words(b, entry.getArguments(), types);
    SmallVector<Value> arguments;
    for (Type argument : kernel.getArgumentTypes().drop_back()) {
      arguments.push_back(words.argument(argument));
    }
    arguments.push_back(arith::IndexCastUIOp::create(b, b.getIndexType(), interface.blockIndex(b)));
    if (failed(placeMaps(kernel, mapCount))) {
      return failure();
    }
    for (Value map : entry.getArguments().take_back(mapCount)) {
      Value word = LLVM::PtrToIntOp::create(b, b.getI64Type(), map);
      arguments.push_back(arith::IndexCastUIOp::create(b, b.getIndexType(), word));
    }
    func::CallOp::create(b, kernel, arguments);
    LLVM::ReturnOp::create(b, ValueRange{});
    return success();
  }

private:
  /// Types of the parameters that an argument takes.
  void appendParameters(Type type, SmallVectorImpl<Type> &parameters) {
    Builder b(type.getContext());
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref) {
      parameters.push_back(b.getI64Type());
      return;
    }
    parameters.push_back(LLVM::LLVMPointerType::get(type.getContext(), interface.pointerSpace));
    parameters.append(memref.getNumDynamicDims(), b.getI64Type());
  }

  /// Addresses of maps of boxes become arguments of the body.
  LogicalResult placeMaps(func::FuncOp kernel, size_t count) {
    SmallVector<Value> maps;
    for (size_t i = 0; i < count; ++i) {
      const unsigned number = kernel.getNumArguments();
      if (failed(kernel.insertArgument(number, IndexType::get(kernel.getContext()), {}, kernel.getLoc()))) {
        return failure();
      }
      maps.push_back(kernel.getArgument(number));
    }
    WalkResult result = kernel.walk([&](tile::BoxMapOp op) {
      if (static_cast<size_t>(op.getNumber()) >= count) {
        op.emitOpError() << "expects one of " << count << " maps of the kernel, but got " << op.getNumber();
        return WalkResult::interrupt();
      }
      op.replaceAllUsesWith(maps[op.getNumber()]);
      op.erase();
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Dynamic shared memory: an external array without a size, whose extent the launch gives.
  void placeStaging(func::FuncOp kernel) {
    SmallVector<gpu::DynamicSharedMemoryOp> ops;
    kernel.walk([&](gpu::DynamicSharedMemoryOp op) { ops.push_back(op); });
    for (gpu::DynamicSharedMemoryOp op : ops) {
      LLVM::GlobalOp global = getStaging();
      ImplicitLocOpBuilder b(op.getLoc(), op);
      auto pointer = LLVM::LLVMPointerType::get(module.getContext(), sharedSpace);
      Value base = LLVM::AddressOfOp::create(b, pointer, global.getSymName());
      auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(), MemRefLayoutAttrInterface(),
                                  b.getI64IntegerAttr(sharedSpace));
      Value size = LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(0));
      ParameterWords words(b, size, types);
      op.getResult().replaceAllUsesWith(words.descriptor(type, base));
      op.erase();
    }
    // Views of it are of the same memory.
    kernel.walk([&](Operation *op) {
      for (Value result : op->getResults()) {
        auto type = dyn_cast<MemRefType>(result.getType());
        if (type && isa_and_nonnull<gpu::AddressSpaceAttr>(type.getMemorySpace())) {
          Attribute space = IntegerAttr::get(IntegerType::get(module.getContext(), 64), sharedSpace);
          result.setType(MemRefType::get(type.getShape(), type.getElementType(), type.getLayout(), space));
        }
      }
    });
  }

  LLVM::GlobalOp getStaging() {
    constexpr StringLiteral name = "staging";
    if (auto found = module.lookupSymbol<LLVM::GlobalOp>(name)) {
      return found;
    }
    OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    return LLVM::GlobalOp::create(b, module.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External, name,
                                  Attribute(), sharedAlignment, sharedSpace);
  }

  ModuleOp module;
  const TeamInterface &interface;
  LLVMTypeConverter types;
};
} // namespace

LogicalResult kvc::wrapTeamKernels(ModuleOp module, const TeamInterface &interface) {
  FailureOr<SmallVector<func::FuncOp>> kernels = collectKernels(module);
  if (failed(kernels)) {
    return failure();
  }
  TeamWrapper wrapper(module, interface);
  for (func::FuncOp kernel : *kernels) {
    if (failed(wrapper.wrap(kernel))) {
      return failure();
    }
  }
  return success();
}

Value kvc::addressOf(ImplicitLocOpBuilder &b, Value memory, Value offset, int64_t displacement, unsigned space) {
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

//===----------------------------------------------------------------------===//
// Elementary functions
//===----------------------------------------------------------------------===//

namespace {
class LaneMath {
public:
  LaneMath(Operation *op, const LaneMathIntrinsics &intrinsics) : op(op), intrinsics(intrinsics), b(op->getLoc(), op) {}

  LogicalResult run() {
    constexpr float log2e = 1.44269504088896341f, ln2 = 0.693147180559945309f;
    if (!isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op, math::TanhOp>(op)) {
      return success();
    }
    Value x = op->getOperand(0);
    if (!x.getType().isF32()) {
      return isa<math::TanhOp>(op) ? success()
                                   : LogicalResult(op->emitOpError() << "expects f32, but got " << x.getType()
                                                                     << ": has no lowering to lanes of GPUs yet");
    }
    Value result;
    if (isa<math::Exp2Op>(op)) {
      result = call(intrinsics.exp2, x);
    } else if (isa<math::ExpOp>(op)) {
      result = call(intrinsics.exp2, arith::MulFOp::create(b, x, constant(log2e)));
    } else if (isa<math::Log2Op>(op)) {
      result = call(intrinsics.log2, x);
    } else if (isa<math::LogOp>(op)) {
      result = arith::MulFOp::create(b, call(intrinsics.log2, x), constant(ln2));
    } else {
      result = tanh(x);
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
    return success();
  }

private:
  Value constant(float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  Value call(StringRef intrinsic, Value x) {
    return LLVM::CallIntrinsicOp::create(b, b.getF32Type(), b.getStringAttr(intrinsic), ValueRange{x}).getResult(0);
  }
  /// sign(x) (1 - 2 / (exp(2 |x|) + 1)): 1 where the exponential overflows.
  Value tanh(Value x) {
    constexpr float twoLog2e = 2.88539008177792681f;
    Value power = call(intrinsics.exp2, arith::MulFOp::create(b, math::AbsFOp::create(b, x), constant(twoLog2e)));
    Value inverse = call(intrinsics.reciprocal, arith::AddFOp::create(b, power, constant(1.0f)));
    return math::CopySignOp::create(b, math::FmaOp::create(b, inverse, constant(-2.0f), constant(1.0f)), x);
  }

  Operation *op;
  const LaneMathIntrinsics &intrinsics;
  ImplicitLocOpBuilder b;
};
} // namespace

LogicalResult kvc::lowerLaneMath(Operation *op, const LaneMathIntrinsics &intrinsics) {
  return LaneMath(op, intrinsics).run();
}

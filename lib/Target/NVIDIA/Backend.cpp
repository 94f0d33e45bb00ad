//===- Backend.cpp - The NVIDIA back end ----------------------------------===//
#include "Codegen.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kvc;

namespace {
SmallVector<func::FuncOp> kernelsOf(ModuleOp module) {
  SmallVector<func::FuncOp> kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(tile::TileDialect::kernelAttr)) {
      kernels.push_back(function);
    }
  }
  return kernels;
}

OwningOpRef<ModuleOp> isolate(ModuleOp module) {
  OwningOpRef<ModuleOp> isolated = ModuleOp::create(module.getLoc());
  for (func::FuncOp kernel : kernelsOf(module)) {
    isolated->getBody()->push_back(kernel.clone());
  }
  return isolated;
}

class NVIDIABackend : public Backend {
public:
  FailureOr<TargetCode> compile(ModuleOp module, const Target &target, const BackendOptions &options) const override {
    FailureOr<std::string> ptx = emit(module, target, CodeForm::Assembly);
    if (failed(ptx)) {
      return failure();
    }
    FailureOr<nvidia::Cubin> cubin = nvidia::assemble(module.getLoc(), *ptx, target);
    if (failed(cubin)) {
      return failure();
    }
    TargetCode result;
    result.kind = CodeKind::Cubin;
    result.code = std::move(cubin->bytes);
    result.assembly = std::move(*ptx);
    for (func::FuncOp kernel : kernelsOf(module)) {
      KernelCode code;
      code.name = code.symbol = kernel.getSymName().str();
      auto number = [&](StringRef name) {
        auto attribute = kernel->getAttrOfType<IntegerAttr>(name);
        return static_cast<uint32_t>(attribute ? attribute.getInt() : 0);
      };
      code.teamLanes = number(tile::TileDialect::teamAttr);
      code.stagingBytes = number(tile::TileDialect::stagingAttr);
      nvidia::Resources resources = cubin->kernels.lookup(code.symbol);
      code.registers = resources.registers;
      code.spillBytes = resources.spillBytes;
      result.kernels.push_back(std::move(code));
    }
    return result;
  }

  FailureOr<std::string> emit(ModuleOp module, const Target &target, CodeForm form) const override {
    nvidia::prepareContext(module.getContext());
    OwningOpRef<ModuleOp> kernels = isolate(module);
    if (form != CodeForm::Object) {
      return nvidia::generateText(*kernels, target, form);
    }
    FailureOr<std::string> ptx = nvidia::generateText(*kernels, target, CodeForm::Assembly);
    if (failed(ptx)) {
      return failure();
    }
    FailureOr<nvidia::Cubin> cubin = nvidia::assemble(module.getLoc(), *ptx, target);
    if (failed(cubin)) {
      return failure();
    }
    return std::string(cubin->bytes.begin(), cubin->bytes.end());
  }
};
} // namespace

const Backend &nvidia::getBackend() {
  static const NVIDIABackend backend;
  return backend;
}

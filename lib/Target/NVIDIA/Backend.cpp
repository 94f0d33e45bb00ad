//===- Backend.cpp - The NVIDIA back end ----------------------------------===//
//
// The kernels of a module become one text of PTX and one cubin.
//
//===----------------------------------------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/LLVM/TeamBackend.h"
#include "kvc/Target/NVIDIA/Passes.h"

using namespace mlir;
using namespace kvc;

namespace {
class NVIDIABackend : public TeamBackend {
public:
  void buildPipeline(OpPassManager &pm) const override { buildNVIDIAPipeline(pm); }

protected:
  CodeKind kind() const override { return CodeKind::Cubin; }
  StringRef cacheSuffix() const override { return ".cubin"; }
  std::string toolchain() const override { return KVC_BUILD_ID "\n" + nvidia::assemblerVersion().str(); }
  void prepare(MLIRContext *context) const override { nvidia::prepareContext(context); }

  FailureOr<TeamBinary> build(ModuleOp kernels, const Target &target) const override {
    FailureOr<std::string> ptx = nvidia::generateText(kernels, target, CodeForm::Assembly);
    if (failed(ptx)) {
      return failure();
    }
    FailureOr<nvidia::Cubin> cubin = nvidia::assemble(kernels.getLoc(), *ptx, target);
    if (failed(cubin)) {
      return failure();
    }
    return TeamBinary{std::move(*ptx), std::move(cubin->bytes), std::move(cubin->log)};
  }

  FailureOr<std::string> text(ModuleOp kernels, const Target &target, CodeForm form) const override {
    return nvidia::generateText(kernels, target, form);
  }

  llvm::StringMap<TeamResources> resourcesOf(const TeamBinary &binary) const override {
    return nvidia::readResources(binary.log);
  }
};
} // namespace

const Backend &nvidia::getBackend() {
  static const NVIDIABackend backend;
  return backend;
}

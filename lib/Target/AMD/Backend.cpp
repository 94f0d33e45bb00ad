//===- Backend.cpp - The AMD back end -------------------------------------===//
//
// The kernels of a module become one code object.
//
//===----------------------------------------------------------------------===//
#include "Codegen.h"

#include "kvc/Target/AMD/Passes.h"

using namespace mlir;
using namespace kvc;

namespace {
class AMDBackend : public TeamBackend {
public:
  void buildPipeline(OpPassManager &pm) const override { buildAMDPipeline(pm); }

protected:
  CodeKind kind() const override { return CodeKind::Hsaco; }
  StringRef cacheSuffix() const override { return ".hsaco"; }
  std::string toolchain() const override { return KVC_BUILD_ID; }
  void prepare(MLIRContext *context) const override { amd::prepareContext(context); }

  FailureOr<TeamBinary> build(ModuleOp kernels, const Target &target) const override {
    FailureOr<std::string> object = amd::generate(kernels, target, CodeForm::Object);
    FailureOr<std::string> linked =
        succeeded(object) ? amd::linkCodeObject(kernels.getLoc(), *object) : FailureOr<std::string>();
    FailureOr<std::string> log =
        succeeded(linked) ? amd::describeKernels(kernels.getLoc(), *linked) : FailureOr<std::string>();
    if (failed(log)) {
      return failure();
    }
    return TeamBinary{/*assembly=*/"", {linked->begin(), linked->end()}, std::move(*log)};
  }

  FailureOr<std::string> text(ModuleOp kernels, const Target &target, CodeForm form) const override {
    return amd::generate(kernels, target, form);
  }

  llvm::StringMap<TeamResources> resourcesOf(const TeamBinary &binary) const override {
    return amd::readResources(binary.log);
  }
};
} // namespace

const Backend &amd::getBackend() {
  static const AMDBackend backend;
  return backend;
}

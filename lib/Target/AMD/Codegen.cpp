//===- Codegen.cpp - Kernels to code objects ------------------------------===//
#include "Codegen.h"

#include "kvc/Target/AMD/Passes.h"
#include "kvc/Target/LLVM/CodeGeneration.h"
#include "kvc/Target/Target.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Target/LLVM/ROCDL/Utils.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"

using namespace mlir;
using namespace kvc;

/// Code object v6, as drivers since ROCm 6 load.
static constexpr uint32_t codeObjectVersion = 600;

namespace {
/// LLVM 22's last peephole pass takes `s_and_b64 vcc, exec, vcc` away in front of a branch on VCC, though a block
/// behind the branch still reads the SCC that it gives. Only machine CSE leaves such reads (docs/rationale/amd.md).
/// Products must not sink behind the branches that store what was copied beside them: they would leave their operands
/// in registers until then.
struct SoundPasses : llvm::OptPassGate {
  explicit SoundPasses(bool sinks) : sinks(sinks) {}
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override {
    return pass != "machine-cse" && (sinks || pass != "machine-sink");
  }
  bool sinks;
};
} // namespace

void amd::prepareContext(MLIRContext *context) {
  DialectRegistry registry;
  registerROCDLDialectTranslation(registry);
  prepareCodeGeneration(context, registry, [](OpPassManager &pm) { buildAMDPipeline(pm); });
}

FailureOr<std::string> amd::generate(ModuleOp module, const Target &target, CodeForm form) {
  SoundPasses passes(/*sinks=*/!target.team->readsInOrder());
  return generateTeamCode(module, target, form, buildAMDPipeline, [&](llvm::Module &code) {
    code.getContext().setOptPassGate(passes);
    for (llvm::Function &function : code) {
      // No number is a signalling NaN, so that maxima need not make them quiet first.
      if (!function.isDeclaration()) {
        function.addFnAttr("amdgpu-ieee", "false");
      }
    }
    code.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", codeObjectVersion);
  });
}

FailureOr<std::string> amd::linkCodeObject(Location location, const std::string &object) {
  // What a kernel calls is in its object: device libraries are not linked.
  return linkObjects(location, object, {"-shared", "--no-undefined", "--build-id=none"});
}

FailureOr<std::string> amd::describeKernels(Location location, StringRef codeObject) {
  Builder b(location.getContext());
  auto kernels = ROCDL::getAMDHSAKernelsELFMetadata(b, ArrayRef<char>(codeObject.data(), codeObject.size()));
  if (!kernels) {
    return emitError(location) << "the code object that ld.lld wrote has no metadata of kernels";
  }
  SmallVector<std::string> lines;
  for (const auto &[name, attributes] : *kernels) {
    auto number = [&, &attributes = attributes](StringRef key) -> int64_t {
      auto value = dyn_cast_or_null<IntegerAttr>(attributes.get(key));
      return value ? value.getInt() : 0;
    };
    lines.push_back((name.getValue() + " " + llvm::Twine(number("vgpr_count")) + " " +
                     llvm::Twine(number("private_segment_fixed_size")))
                        .str());
  }
  llvm::sort(lines);
  return llvm::join(lines, "\n");
}

llvm::StringMap<TeamResources> amd::readResources(StringRef lines) {
  llvm::StringMap<TeamResources> kernels;
  while (!lines.empty()) {
    StringRef line;
    std::tie(line, lines) = lines.split('\n');
    auto [name, numbers] = line.split(' ');
    auto [registers, bytes] = numbers.split(' ');
    TeamResources &resources = kernels[name];
    if (registers.getAsInteger(10, resources.registers) || bytes.getAsInteger(10, resources.spillBytes)) {
      kernels.erase(name);
    }
  }
  return kernels;
}

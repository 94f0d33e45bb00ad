//===- Codegen.cpp - Kernels to machine code ------------------------------===//
#include "Codegen.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/CPU/Passes.h"
#include "kvc/Target/LLVM/CodeGeneration.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kvc;

void cpu::prepareContext(MLIRContext *context) {
  DialectRegistry registry;
  prepareCodeGeneration(context, registry, [](OpPassManager &pm) { buildCPUPipeline(pm, {}); });
}

std::unique_ptr<llvm::TargetMachine> cpu::createTargetMachine(Location location, const Target &target) {
  return kvc::createTargetMachine(location, target, {}, llvm::Reloc::PIC_);
}

std::unique_ptr<llvm::Module> cpu::createLLVMModule(ModuleOp module, const Target &target, llvm::TargetMachine &machine,
                                                    llvm::LLVMContext &context, uint64_t &scratchBytes) {
  PassManager pm(module.getContext());
  buildCPUPipeline(pm, {});
  // Half of the pipeline's time, for thousands of operations: kvc-opt verifies after each pass, here the result counts.
  pm.enableVerifier(false);
  if (failed(pm.run(module)) || failed(verify(module))) {
    return nullptr;
  }
  scratchBytes = 0;
  module.walk([&](LLVM::LLVMFuncOp function) {
    if (auto bytes = function->getAttrOfType<IntegerAttr>(tile::TileDialect::scratchAttr)) {
      scratchBytes = std::max<uint64_t>(scratchBytes, bytes.getInt());
    }
  });
  std::unique_ptr<llvm::Module> result = translateKernels(module, machine, context);
  if (!result) {
    return nullptr;
  }
  for (llvm::Function &function : *result) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", target.cpu);
      function.addFnAttr("target-features", target.features);
      function.addFnAttr("prefer-vector-width", std::to_string(target.lanes * 32));
    }
  }
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  optimise(*result, machine, tuning);
  return result;
}

/// A kernel may call what every process has, and nothing else.
static LogicalResult checkCalls(Location location, StringRef bytes) {
  static constexpr llvm::StringLiteral allowed[] = {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"};
  auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernels"));
  if (!object) {
    return emitError(location) << "the code generator wrote an object that cannot be read: "
                               << llvm::toString(object.takeError());
  }
  for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (flags && name && (*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
        !llvm::is_contained(allowed, *name)) {
      return emitError(location) << "the kernel calls '" << *name << "', which no device provides";
    }
    llvm::consumeError(flags.takeError());
    llvm::consumeError(name.takeError());
  }
  return success();
}

FailureOr<std::string> cpu::generateCode(Location location, llvm::Module &module, llvm::TargetMachine &machine,
                                         bool assembly) {
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  FailureOr<std::string> code = emitFile(location, module, machine, kind);
  if (succeeded(code) && !assembly && failed(checkCalls(location, *code))) {
    return failure();
  }
  return code;
}

FailureOr<std::string> cpu::link(Location location, ArrayRef<std::string> objects, bool shared) {
  if (shared) {
    return linkObjects(location, objects,
                       {"-shared", "-z", "now", "-z", "noexecstack", "--hash-style=gnu", "--build-id=none"});
  }
  return linkObjects(location, objects, {"-r"});
}

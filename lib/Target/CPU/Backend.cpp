//===- Backend.cpp - The CPU back end -------------------------------------===//
//
// Every kernel is compiled on its own, so that the cache serves kernels across
// modules, and linked with the others to one shared object.
//
//===----------------------------------------------------------------------===//
#include "Codegen.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "kvc/Target/CPU/Passes.h"
#include "kvc/Target/CodeCache.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Endian.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kvc;

namespace {

/// A module with a copy of one kernel, named `name`.
OwningOpRef<ModuleOp> isolate(func::FuncOp kernel, StringRef name) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  func::FuncOp copy = kernel.clone();
  copy.setSymName(name);
  module->getBody()->push_back(copy);
  return module;
}

/// `attention` for `attention_17`: the name that kernels of the same kind share.
StringRef baseName(StringRef name) {
  size_t underscore = name.rfind('_');
  if (underscore != StringRef::npos && underscore + 1 < name.size() &&
      llvm::all_of(name.drop_front(underscore + 1), llvm::isDigit)) {
    name = name.take_front(underscore);
  }
  return name;
}

/// Hash of all that the code of a kernel depends on.
std::string hashOf(func::FuncOp kernel, StringRef name, const Target &target) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << KVC_BUILD_ID << '\n'
     << target.name << '\n'
     << target.triple << '\n'
     << target.cpu << '\n'
     << target.features << '\n'
     << target.lanes << '\n'
     << name << '\n';
  isolate(kernel, name)->print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
  return CodeCache::keyOf(text);
}

/// An entry of the cache: scratch bytes, object.
std::string pack(const cpu::CompiledKernel &kernel) {
  std::string entry(sizeof(uint64_t), '\0');
  llvm::support::endian::write64le(entry.data(), kernel.scratchBytes);
  return entry + kernel.object;
}
std::optional<cpu::CompiledKernel> unpack(StringRef entry) {
  if (entry.size() < sizeof(uint64_t)) {
    return std::nullopt;
  }
  return cpu::CompiledKernel{entry.drop_front(sizeof(uint64_t)).str(), llvm::support::endian::read64le(entry.data())};
}

class CPUBackend : public Backend {
public:
  void buildPipeline(OpPassManager &pm) const override { buildCPUPipeline(pm, {}); }

  FailureOr<TargetCode> compile(ModuleOp module, const Target &target, const BackendOptions &options) const override {
    cpu::prepareContext(module.getContext());
    CodeCache cache(options.cacheFolder, ".o");
    TargetCode result;
    struct Job {
      func::FuncOp kernel;
      std::string symbol, key;
      cpu::CompiledKernel code;
    };
    std::vector<Job> jobs;
    llvm::StringMap<size_t> bySymbol;
    SmallVector<size_t> jobOf;
    for (func::FuncOp kernel : tile::kernelsOf(module)) {
      StringRef base = baseName(kernel.getSymName());
      std::string key = hashOf(kernel, base, target);
      std::string symbol = (base + "." + key.substr(0, 16)).str();
      auto [job, isNew] = bySymbol.try_emplace(symbol, jobs.size());
      if (isNew) {
        jobs.push_back({kernel, symbol, key, {}});
      }
      jobOf.push_back(job->second);
      result.kernels.push_back({kernel.getSymName().str(), symbol, 0});
    }
    LogicalResult compiled = failableParallelForEach(module.getContext(), jobs, [&](Job &job) -> LogicalResult {
      if (std::optional<std::string> entry = cache.find(job.key)) {
        if (std::optional<cpu::CompiledKernel> found = unpack(*entry)) {
          job.code = std::move(*found);
          return success();
        }
      }
      if (failed(compileKernel(job.kernel, job.symbol, target, job.code))) {
        return failure();
      }
      cache.insert(job.key, pack(job.code));
      return success();
    });
    if (failed(compiled)) {
      return failure();
    }
    for (auto [kernel, job] : llvm::zip_equal(result.kernels, jobOf)) {
      kernel.scratchBytes = jobs[job].code.scratchBytes;
    }
    if (jobs.empty()) {
      return result; // functions that only pass values on need no code
    }
    std::vector<std::string> objects;
    for (Job &job : jobs) {
      objects.push_back(std::move(job.code.object));
    }
    FailureOr<std::string> shared = cpu::link(module.getLoc(), objects, /*shared=*/true);
    if (failed(shared)) {
      return failure();
    }
    result.code.assign(shared->begin(), shared->end());
    return result;
  }

  FailureOr<std::string> emit(ModuleOp module, const Target &target, CodeForm form) const override {
    cpu::prepareContext(module.getContext());
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
    for (func::FuncOp kernel : tile::kernelsOf(module)) {
      kernels->getBody()->push_back(kernel.clone());
    }
    llvm::LLVMContext context;
    std::unique_ptr<llvm::TargetMachine> machine = cpu::createTargetMachine(module.getLoc(), target);
    uint64_t scratch;
    std::unique_ptr<llvm::Module> code =
        machine ? cpu::createLLVMModule(*kernels, target, *machine, context, scratch) : nullptr;
    if (!code) {
      return failure();
    }
    if (form != CodeForm::LLVM) {
      return cpu::generateCode(module.getLoc(), *code, *machine, form == CodeForm::Assembly);
    }
    std::string text;
    llvm::raw_string_ostream os(text);
    code->print(os, nullptr);
    return text;
  }

private:
  static LogicalResult compileKernel(func::FuncOp kernel, StringRef symbol, const Target &target,
                                     cpu::CompiledKernel &code) {
    OwningOpRef<ModuleOp> module = isolate(kernel, symbol);
    llvm::LLVMContext context;
    std::unique_ptr<llvm::TargetMachine> machine = cpu::createTargetMachine(kernel.getLoc(), target);
    if (!machine) {
      return failure();
    }
    std::unique_ptr<llvm::Module> llvmModule =
        cpu::createLLVMModule(*module, target, *machine, context, code.scratchBytes);
    if (!llvmModule) {
      return failure();
    }
    FailureOr<std::string> object = cpu::generateCode(kernel.getLoc(), *llvmModule, *machine, /*assembly=*/false);
    if (failed(object)) {
      return failure();
    }
    code.object = std::move(*object);
    return success();
  }
};

} // namespace

const Backend &cpu::getBackend() {
  static const CPUBackend backend;
  return backend;
}

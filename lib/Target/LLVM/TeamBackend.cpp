//===- TeamBackend.cpp - Back ends whose kernels teams run ----------------===//
#include "kvc/Target/LLVM/TeamBackend.h"

#include "kvc/Dialect/Tile/IR/Kernels.h"
#include "kvc/Target/CodeCache.h"
#include "kvc/Target/LLVM/CodeGeneration.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Endian.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kvc;

static OwningOpRef<ModuleOp> isolate(ModuleOp module) {
  OwningOpRef<ModuleOp> isolated = ModuleOp::create(module.getLoc());
  isolated->getOperation()->setAttrs(module->getAttrDictionary());
  for (func::FuncOp kernel : tile::kernelsOf(module)) {
    isolated->getBody()->push_back(kernel.clone());
  }
  return isolated;
}

/// An entry of the cache: sizes of the assembly and the log, assembly, log, bytes.
static std::string pack(const TeamBinary &binary) {
  std::string entry(2 * sizeof(uint64_t), '\0');
  llvm::support::endian::write64le(entry.data(), binary.assembly.size());
  llvm::support::endian::write64le(entry.data() + 8, binary.log.size());
  entry += binary.assembly + binary.log;
  entry.append(binary.bytes.begin(), binary.bytes.end());
  return entry;
}
static std::optional<TeamBinary> unpack(StringRef entry) {
  if (entry.size() < 2 * sizeof(uint64_t)) {
    return std::nullopt;
  }
  const uint64_t assembly = llvm::support::endian::read64le(entry.data());
  const uint64_t log = llvm::support::endian::read64le(entry.data() + 8);
  entry = entry.drop_front(2 * sizeof(uint64_t));
  if (assembly > entry.size() || log > entry.size() - assembly) {
    return std::nullopt;
  }
  StringRef bytes = entry.drop_front(assembly + log);
  return TeamBinary{
      entry.take_front(assembly).str(), {bytes.bytes_begin(), bytes.bytes_end()}, entry.substr(assembly, log).str()};
}

/// Hash of all that the code depends on: the kernels with their locations, which code may keep, the target, the tools.
static std::string hashOf(ModuleOp kernels, const Target &target, StringRef toolchain) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << toolchain << '\n'
     << target.name << '\n'
     << target.triple << '\n'
     << target.cpu << '\n'
     << target.features << '\n';
  kernels->print(os, OpPrintingFlags().printGenericOpForm().enableDebugInfo());
  return CodeCache::keyOf(text);
}

FailureOr<TeamBinary> TeamBackend::buildCached(ModuleOp module, const Target &target,
                                               const BackendOptions &options) const {
  prepare(module.getContext());
  OwningOpRef<ModuleOp> kernels = isolate(module);
  CodeCache cache(options.cacheFolder, cacheSuffix());
  const std::string key = hashOf(*kernels, target, toolchain());
  if (std::optional<std::string> entry = cache.find(key)) {
    if (std::optional<TeamBinary> found = unpack(*entry)) {
      return std::move(*found);
    }
  }
  FailureOr<TeamBinary> binary = build(*kernels, target);
  if (succeeded(binary)) {
    cache.insert(key, pack(*binary));
  }
  return binary;
}

FailureOr<TargetCode> TeamBackend::compile(ModuleOp module, const Target &target, const BackendOptions &options) const {
  FailureOr<TeamBinary> binary = buildCached(module, target, options);
  if (failed(binary)) {
    return failure();
  }
  const llvm::StringMap<TeamResources> used = resourcesOf(*binary);
  TargetCode result;
  result.kind = kind();
  for (func::FuncOp kernel : tile::kernelsOf(module)) {
    KernelCode code;
    code.name = code.symbol = kernel.getSymName().str();
    auto number = [&](StringRef name) {
      auto attribute = kernel->getAttrOfType<IntegerAttr>(name);
      return static_cast<uint32_t>(attribute ? attribute.getInt() : 0);
    };
    code.teamLanes = number(tile::TileDialect::teamAttr);
    code.stagingBytes = number(tile::TileDialect::stagingAttr);
    const TeamResources resources = used.lookup(code.symbol);
    code.registers = resources.registers;
    code.spillBytes = resources.spillBytes;
    result.kernels.push_back(std::move(code));
  }
  result.code = std::move(binary->bytes);
  result.assembly = std::move(binary->assembly);
  return result;
}

FailureOr<std::string> TeamBackend::emit(ModuleOp module, const Target &target, CodeForm form) const {
  prepare(module.getContext());
  OwningOpRef<ModuleOp> kernels = isolate(module);
  if (form != CodeForm::Object) {
    return text(*kernels, target, form);
  }
  FailureOr<TeamBinary> binary = build(*kernels, target);
  if (failed(binary)) {
    return failure();
  }
  return std::string(binary->bytes.begin(), binary->bytes.end());
}

FailureOr<std::string> kvc::generateTeamCode(ModuleOp module, const Target &target, CodeForm form,
                                             llvm::function_ref<void(OpPassManager &)> pipeline,
                                             llvm::function_ref<void(llvm::Module &)> complete) {
  PassManager pm(module.getContext());
  pipeline(pm);
  if (failed(pm.run(module))) {
    return failure();
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(module.getLoc(), target, options, std::nullopt);
  if (!machine) {
    return failure();
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateKernels(module, *machine, context);
  if (!code) {
    return failure();
  }
  complete(*code);
  optimise(*code, *machine, {});
  if (form == CodeForm::LLVM) {
    std::string text;
    llvm::raw_string_ostream os(text);
    code->print(os, nullptr);
    return text;
  }
  return emitFile(module.getLoc(), *code, *machine,
                  form == CodeForm::Assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
}

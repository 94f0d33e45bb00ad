//===- Backend.cpp - The NVIDIA back end ----------------------------------===//
//
// The kernels of a module become one text of PTX and one cubin, which the cache
// keeps together.
//
//===----------------------------------------------------------------------===//
#include "Codegen.h"

#include "kvc/Dialect/Tile/IR/Tile.h"
#include "kvc/Target/CodeCache.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Endian.h"

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

struct Compiled {
  std::string ptx;
  nvidia::Cubin cubin;
};

/// An entry of the cache: sizes of the PTX and the log, PTX, log, cubin.
std::string pack(const Compiled &compiled) {
  std::string entry(2 * sizeof(uint64_t), '\0');
  llvm::support::endian::write64le(entry.data(), compiled.ptx.size());
  llvm::support::endian::write64le(entry.data() + 8, compiled.cubin.log.size());
  entry += compiled.ptx + compiled.cubin.log;
  entry.append(compiled.cubin.bytes.begin(), compiled.cubin.bytes.end());
  return entry;
}
std::optional<Compiled> unpack(StringRef entry) {
  if (entry.size() < 2 * sizeof(uint64_t)) {
    return std::nullopt;
  }
  const uint64_t ptx = llvm::support::endian::read64le(entry.data());
  const uint64_t log = llvm::support::endian::read64le(entry.data() + 8);
  entry = entry.drop_front(2 * sizeof(uint64_t));
  if (ptx > entry.size() || log > entry.size() - ptx) {
    return std::nullopt;
  }
  StringRef cubin = entry.drop_front(ptx + log);
  return Compiled{entry.take_front(ptx).str(),
                  {{cubin.bytes_begin(), cubin.bytes_end()}, entry.substr(ptx, log).str()}};
}

/// Hash of all that the code depends on: the kernels with their locations, which PTX keeps, the target, the tools.
std::string hashOf(ModuleOp kernels, const Target &target) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << KVC_BUILD_ID << '\n'
     << nvidia::assemblerVersion() << '\n'
     << target.name << '\n'
     << target.triple << '\n'
     << target.cpu << '\n'
     << target.features << '\n';
  kernels->print(os, OpPrintingFlags().printGenericOpForm().enableDebugInfo());
  return CodeCache::keyOf(text);
}

FailureOr<Compiled> compileKernels(ModuleOp module, const Target &target, const BackendOptions &options) {
  nvidia::prepareContext(module.getContext());
  OwningOpRef<ModuleOp> kernels = isolate(module);
  CodeCache cache(options.cacheFolder, ".cubin");
  const std::string key = hashOf(*kernels, target);
  if (std::optional<std::string> entry = cache.find(key)) {
    if (std::optional<Compiled> found = unpack(*entry)) {
      return std::move(*found);
    }
  }
  FailureOr<std::string> ptx = nvidia::generateText(*kernels, target, CodeForm::Assembly);
  if (failed(ptx)) {
    return failure();
  }
  FailureOr<nvidia::Cubin> cubin = nvidia::assemble(module.getLoc(), *ptx, target);
  if (failed(cubin)) {
    return failure();
  }
  Compiled compiled{std::move(*ptx), std::move(*cubin)};
  cache.insert(key, pack(compiled));
  return compiled;
}

class NVIDIABackend : public Backend {
public:
  FailureOr<TargetCode> compile(ModuleOp module, const Target &target, const BackendOptions &options) const override {
    FailureOr<Compiled> compiled = compileKernels(module, target, options);
    if (failed(compiled)) {
      return failure();
    }
    TargetCode result;
    result.kind = CodeKind::Cubin;
    result.code = std::move(compiled->cubin.bytes);
    result.assembly = std::move(compiled->ptx);
    const llvm::StringMap<nvidia::Resources> used = nvidia::readResources(compiled->cubin.log);
    for (func::FuncOp kernel : kernelsOf(module)) {
      KernelCode code;
      code.name = code.symbol = kernel.getSymName().str();
      auto number = [&](StringRef name) {
        auto attribute = kernel->getAttrOfType<IntegerAttr>(name);
        return static_cast<uint32_t>(attribute ? attribute.getInt() : 0);
      };
      code.teamLanes = number(tile::TileDialect::teamAttr);
      code.stagingBytes = number(tile::TileDialect::stagingAttr);
      nvidia::Resources resources = used.lookup(code.symbol);
      code.registers = resources.registers;
      // A frame without spills is local memory too.
      code.spillBytes = std::max(resources.spillBytes, resources.stackBytes);
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

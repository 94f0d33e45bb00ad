//===- Disassembler.cpp - Bytes to text through LLVM ----------------------===//
#include "amdgcn/Text.h"
#include "common/Fault.h"

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUDisassembler();
}

static const llvm::Target &target(const llvm::Triple &triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
  });
  std::string error;
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) {
    fail(FaultKind::Other, "expects an LLVM with the AMDGPU target, but got: {}", error);
  }
  return *found;
}

std::vector<TextInst> kvc::sim::amdgcn::disassemble(const CodeObject &object, const KernelInfo &kernel) {
  const llvm::Triple triple("amdgcn-amd-amdhsa");
  const llvm::Target &amdgpu = target(triple);
  // Halves of registers by name, whether or not the compiler used them.
  const std::string features = object.chip->cdna()     ? ""
                               : kernel.waveSize == 32 ? "+real-true16,+wavefrontsize32,-wavefrontsize64"
                                                       : "+real-true16,-wavefrontsize32,+wavefrontsize64";
  const llvm::MCTargetOptions options;
  const std::unique_ptr<llvm::MCRegisterInfo> registers(amdgpu.createMCRegInfo(triple));
  const std::unique_ptr<llvm::MCAsmInfo> assembler(amdgpu.createMCAsmInfo(*registers, triple, options));
  const std::unique_ptr<llvm::MCInstrInfo> instructions(amdgpu.createMCInstrInfo());
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      amdgpu.createMCSubtargetInfo(triple, std::string(object.chip->target), features));
  llvm::MCContext context(triple, assembler.get(), registers.get(), subtarget.get());
  const std::unique_ptr<const llvm::MCDisassembler> decoder(amdgpu.createMCDisassembler(*subtarget, context));
  const std::unique_ptr<llvm::MCInstPrinter> printer(
      amdgpu.createMCInstPrinter(triple, assembler->getAssemblerDialect(), *assembler, *instructions, *registers));

  std::vector<TextInst> result;
  const llvm::ArrayRef<uint8_t> code(object.image.data() + kernel.entry, kernel.codeBytes);
  for (uint64_t at = 0; at < code.size();) {
    llvm::MCInst inst;
    uint64_t size = 0;
    const uint64_t address = kernel.entry + at;
    std::string text;
    llvm::raw_string_ostream stream(text);
    const auto status = decoder->getInstruction(inst, size, code.slice(at), address, llvm::nulls());
    if (status != llvm::MCDisassembler::Success || size == 0) {
      // Padding behind the last instruction is never run; what is run must be known.
      TextInst unknown;
      unknown.address = address;
      unknown.bytes = 4;
      uint32_t word = 0;
      std::memcpy(&word, code.data() + at, std::min<uint64_t>(4, code.size() - at));
      unknown.name = "unknown";
      unknown.text = fmt::format(".long {:#010x}", word);
      result.push_back(std::move(unknown));
      at += 4;
      continue;
    }
    printer->printInst(&inst, address, "", *subtarget, stream);
    TextInst read = parseText(text);
    read.address = address;
    read.bytes = uint32_t(size);
    result.push_back(std::move(read));
    at += size;
  }
  return result;
}

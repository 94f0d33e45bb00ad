//===- CodeObject.cpp - HSACO files ---------------------------------------===//
#include "amdgcn/CodeObject.h"

#include "common/Fault.h"

#include <llvm/BinaryFormat/AMDGPUMetadataVerifier.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/BinaryFormat/MsgPackReader.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/AMDHSAKernelDescriptor.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cstring>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;
using llvm::msgpack::DocNode;

std::vector<const KernelArgument *> KernelInfo::explicitArguments() const {
  std::vector<const KernelArgument *> result;
  for (const KernelArgument &argument : arguments) {
    if (!argument.hidden()) {
      result.push_back(&argument);
    }
  }
  return result;
}

namespace {

/// The chip of an ELF header's flags.
std::string machineOf(uint32_t flags) {
  const uint32_t machine = flags & llvm::ELF::EF_AMDGPU_MACH;
  for (const Chip &chip : chips()) {
    if (chip.machine == machine) {
      return std::string(chip.target);
    }
  }
  return fmt::format("machine {:#x}", machine);
}

/// Whether a value of MessagePack can be read into a document, which takes it for granted that keys are strings.
bool isWellFormed(llvm::msgpack::Reader &reader, unsigned depth, bool isKey) {
  using llvm::msgpack::Type;
  llvm::msgpack::Object object;
  auto found = reader.read(object);
  if (!found) {
    llvm::consumeError(found.takeError());
    return false;
  }
  if (!*found || depth == 0 || (isKey && object.Kind != Type::String)) {
    return false;
  }
  if (object.Kind != Type::Array && object.Kind != Type::Map) {
    return object.Kind != Type::Extension;
  }
  for (size_t i = 0; i < object.Length; ++i) {
    if (object.Kind == Type::Map && !isWellFormed(reader, depth - 1, true)) {
      return false;
    }
    if (!isWellFormed(reader, depth - 1, false)) {
      return false;
    }
  }
  return true;
}

using ElfFile = llvm::object::ELFFile<llvm::object::ELF64LE>;

class Reader {
public:
  Reader(const std::string &name, llvm::StringRef bytes, const Chip &chip) : name(name), bytes(bytes), chip(chip) {}

  CodeObject run() {
    object.name = name;
    object.chip = &chip;
    if (bytes.size() < sizeof(ElfFile::Elf_Ehdr) || !bytes.starts_with("\x7f"
                                                                       "ELF\x02\x01")) {
      fail(FaultKind::Syntax, "{}: expects an ELF file of 64 bits, but got another file", name);
    }
    const ElfFile elf = take(ElfFile::create(bytes), "an ELF file");
    const auto &header = elf.getHeader();
    if (header.e_machine != llvm::ELF::EM_AMDGPU || header.e_type != llvm::ELF::ET_DYN) {
      fail(FaultKind::Syntax, "{}: expects a linked code object of an AMD GPU, but got machine {} and type {}", name,
           unsigned(header.e_machine), unsigned(header.e_type));
    }
    checkTarget(header.e_flags);
    loadSegments(elf);
    readMetadata(elf);
    readSymbols(elf);
    readRelocations(elf);
    return std::move(object);
  }

private:
  template <typename T> T take(llvm::Expected<T> value, const char *what) {
    if (!value) {
      fail(FaultKind::Syntax, "{}: expects {}, but got: {}", name, what, llvm::toString(value.takeError()));
    }
    return std::move(*value);
  }

  void checkTarget(uint32_t flags) {
    const std::string found = machineOf(flags);
    if (found != chip.target) {
      fail(FaultKind::Unsupported, "{}: expects code for {}, but got code for {}", name, chip.target, found);
    }
  }

  void loadSegments(const ElfFile &elf) {
    for (const auto &header : take(elf.program_headers(), "program headers")) {
      if (header.p_type != llvm::ELF::PT_LOAD) {
        continue;
      }
      constexpr uint64_t most = uint64_t(1) << 28;
      const uint64_t end = header.p_vaddr + header.p_memsz;
      if (header.p_offset > bytes.size() || header.p_filesz > bytes.size() - header.p_offset ||
          header.p_filesz > header.p_memsz || header.p_vaddr > most || header.p_memsz > most - header.p_vaddr) {
        fail(FaultKind::Syntax, "{}: expects segments that lie in the file, but got one of {} bytes at {}", name,
             uint64_t(header.p_filesz), uint64_t(header.p_offset));
      }
      if (object.image.size() < end) {
        object.image.resize(end);
      }
      std::memcpy(object.image.data() + header.p_vaddr, bytes.data() + header.p_offset, header.p_filesz);
      object.segments.push_back(
          {header.p_vaddr, header.p_memsz, (uint32_t(header.p_flags) & uint32_t(llvm::ELF::PF_W)) != 0});
    }
  }

  const uint8_t *at(uint64_t address, uint64_t size, const char *what) {
    if (address > object.image.size() || size > object.image.size() - address) {
      fail(FaultKind::Syntax, "{}: expects {} in a segment, but got address {:#x}", name, what, address);
    }
    return object.image.data() + address;
  }

  // Metadata ----------------------------------------------------------------------------------------------------------

  static uint64_t number(llvm::msgpack::MapDocNode &map, llvm::StringRef key, uint64_t otherwise = 0) {
    auto found = map.find(key);
    if (found == map.end()) {
      return otherwise;
    }
    const DocNode &node = found->second;
    return node.getKind() == llvm::msgpack::Type::UInt  ? node.getUInt()
           : node.getKind() == llvm::msgpack::Type::Int ? uint64_t(node.getInt())
                                                        : otherwise;
  }
  static std::string text(llvm::msgpack::MapDocNode &map, llvm::StringRef key) {
    auto found = map.find(key);
    return found != map.end() && found->second.getKind() == llvm::msgpack::Type::String
               ? found->second.getString().str()
               : std::string();
  }

  void readMetadata(const ElfFile &elf) {
    bool found = false;
    for (const auto &header : take(elf.program_headers(), "program headers")) {
      if (header.p_type != llvm::ELF::PT_NOTE) {
        continue;
      }
      llvm::Error error = llvm::Error::success();
      for (const auto &note : elf.notes(header, error)) {
        if (note.getName() == "AMDGPU" && note.getType() == llvm::ELF::NT_AMDGPU_METADATA) {
          const auto blob = note.getDesc(header.p_align);
          readDocument(llvm::StringRef(reinterpret_cast<const char *>(blob.data()), blob.size()));
          found = true;
        }
      }
      if (error) {
        fail(FaultKind::Syntax, "{}: expects notes, but got: {}", name, llvm::toString(std::move(error)));
      }
    }
    if (!found) {
      fail(FaultKind::Syntax, "{}: expects AMDGPU metadata in a note, but got none", name);
    }
  }

  void readDocument(llvm::StringRef blob) {
    llvm::msgpack::Document document;
    llvm::AMDGPU::HSAMD::V3::MetadataVerifier verifier(/*Strict=*/false);
    constexpr unsigned deepest = 32;
    llvm::msgpack::Reader reader(blob);
    if (!isWellFormed(reader, deepest, false) || !document.readFromBlob(blob, /*Multi=*/false) ||
        !verifier.verify(document.getRoot())) {
      fail(FaultKind::Syntax, "{}: expects AMDGPU metadata of a code object, but got something else", name);
    }
    auto &root = document.getRoot().getMap();
    auto kernels = root.find("amdhsa.kernels");
    if (kernels == root.end()) {
      return;
    }
    for (DocNode &node : kernels->second.getArray()) {
      auto &map = node.getMap();
      KernelInfo kernel;
      kernel.name = text(map, ".name");
      kernel.kernargBytes = uint32_t(number(map, ".kernarg_segment_size"));
      kernel.ldsBytes = uint32_t(number(map, ".group_segment_fixed_size"));
      kernel.privateBytes = uint32_t(number(map, ".private_segment_fixed_size"));
      kernel.vgprs = uint32_t(number(map, ".vgpr_count"));
      kernel.agprs = uint32_t(number(map, ".agpr_count"));
      kernel.sgprs = uint32_t(number(map, ".sgpr_count"));
      kernel.vgprSpills = uint32_t(number(map, ".vgpr_spill_count"));
      kernel.sgprSpills = uint32_t(number(map, ".sgpr_spill_count"));
      kernel.waveSize = uint32_t(number(map, ".wavefront_size", chip.waveSize));
      kernel.maxThreads = uint32_t(number(map, ".max_flat_workgroup_size", 1024));
      // What the hardware's registers for the size of private memory can say, and more arguments than any kernel has.
      constexpr uint32_t mostPrivate = 1 << 18, mostArguments = 1 << 16;
      if (kernel.privateBytes > mostPrivate || kernel.kernargBytes > mostArguments) {
        fail(FaultKind::Unsupported,
             "{}: expects at most {} private bytes and {} bytes of arguments of {}, but got {} and {}", name,
             mostPrivate, mostArguments, kernel.name, kernel.privateBytes, kernel.kernargBytes);
      }
      if (auto dynamic = map.find(".uses_dynamic_stack"); dynamic != map.end()) {
        kernel.dynamicStack = dynamic->second.getKind() == llvm::msgpack::Type::Boolean && dynamic->second.getBool();
      }
      if (auto required = map.find(".reqd_workgroup_size"); required != map.end()) {
        for (unsigned i = 0; i < 3; ++i) {
          kernel.requiredBlock[i] = uint32_t(required->second.getArray()[i].getUInt());
        }
      }
      if (auto arguments = map.find(".args"); arguments != map.end()) {
        for (DocNode &argument : arguments->second.getArray()) {
          auto &fields = argument.getMap();
          kernel.arguments.push_back({text(fields, ".name"), text(fields, ".value_kind"),
                                      uint32_t(number(fields, ".offset")), uint32_t(number(fields, ".size"))});
          const KernelArgument &last = kernel.arguments.back();
          if (uint64_t(last.offset) + last.bytes > kernel.kernargBytes) {
            fail(FaultKind::Syntax, "{}: expects arguments of {} in its {} bytes, but got one at {}", name, kernel.name,
                 kernel.kernargBytes, last.offset);
          }
        }
      }
      object.kernels.emplace(kernel.name, std::move(kernel));
    }
  }

  // Symbols -----------------------------------------------------------------------------------------------------------

  void readSymbols(const ElfFile &elf) {
    for (const auto &section : take(elf.sections(), "sections")) {
      if (section.sh_type != llvm::ELF::SHT_DYNSYM) {
        continue;
      }
      const llvm::StringRef names = take(elf.getStringTableForSymtab(section), "a string table");
      for (const auto &symbol : take(elf.symbols(&section), "symbols")) {
        const std::string symbolName = take(symbol.getName(names), "a symbol's name").str();
        dynamicSymbols.push_back({symbolName, symbol.st_value, symbol.st_shndx != llvm::ELF::SHN_UNDEF});
        if (symbol.st_shndx == llvm::ELF::SHN_UNDEF) {
          continue;
        }
        if (symbol.getType() == llvm::ELF::STT_OBJECT) {
          object.variables[symbolName] = {symbol.st_value, symbol.st_size};
        } else if (symbol.getType() == llvm::ELF::STT_FUNC) {
          if (auto kernel = object.kernels.find(symbolName); kernel != object.kernels.end()) {
            at(symbol.st_value, symbol.st_size, "code");
            kernel->second.entry = symbol.st_value;
            kernel->second.codeBytes = symbol.st_size;
          }
        }
      }
    }
    for (auto &[kernelName, kernel] : object.kernels) {
      auto found = object.variables.find(kernelName + ".kd");
      if (found == object.variables.end()) {
        fail(FaultKind::Syntax, "{}: expects the descriptor {}.kd, but got none", name, kernelName);
      }
      readDescriptor(kernel, found->second);
      object.variables.erase(found);
    }
  }

  void readDescriptor(KernelInfo &kernel, const DataSymbol &symbol) {
    llvm::amdhsa::kernel_descriptor_t descriptor;
    std::memcpy(&descriptor, at(symbol.address, sizeof(descriptor), "a kernel descriptor"), sizeof(descriptor));
    kernel.rsrc1 = descriptor.compute_pgm_rsrc1;
    kernel.rsrc2 = descriptor.compute_pgm_rsrc2;
    kernel.rsrc3 = descriptor.compute_pgm_rsrc3;
    kernel.properties = descriptor.kernel_code_properties;
    kernel.preload = descriptor.kernarg_preload;
    // Preloaded arguments are user registers, of which there are 16.
    if ((kernel.preload & 0x7f) > 16) {
      fail(FaultKind::Syntax, "{}: expects at most 16 preloaded registers of {}, but got {}", name, kernel.name,
           kernel.preload & 0x7f);
    }
    if (kernel.entry != symbol.address + uint64_t(descriptor.kernel_code_entry_byte_offset)) {
      fail(FaultKind::Syntax, "{}: expects the code of {} where its descriptor says, but got {:#x}", name, kernel.name,
           kernel.entry);
    }
    if (descriptor.group_segment_fixed_size != kernel.ldsBytes ||
        descriptor.private_segment_fixed_size != kernel.privateBytes) {
      fail(FaultKind::Syntax, "{}: expects the same LDS and private bytes of {} in descriptor and metadata", name,
           kernel.name);
    }
  }

  void readRelocations(const ElfFile &elf) {
    for (const auto &section : take(elf.sections(), "sections")) {
      if (section.sh_type != llvm::ELF::SHT_RELA) {
        continue;
      }
      for (const auto &relocation : take(elf.relas(section), "relocations")) {
        const uint32_t type = relocation.getType(false), index = relocation.getSymbol(false);
        const uint64_t addend = uint64_t(relocation.r_addend);
        at(relocation.r_offset, 8, "a relocation");
        if (type == llvm::ELF::R_AMDGPU_RELATIVE64) {
          object.relocations.push_back({relocation.r_offset, addend});
        } else if (type == llvm::ELF::R_AMDGPU_ABS64 && index < dynamicSymbols.size() &&
                   dynamicSymbols[index].defined) {
          object.relocations.push_back({relocation.r_offset, dynamicSymbols[index].address + addend});
        } else {
          fail(FaultKind::Unsupported, "{}: expects relocations of 64-bit addresses of defined symbols, but got {}",
               name,
               index < dynamicSymbols.size() && !dynamicSymbols[index].defined
                   ? "the undefined symbol " + dynamicSymbols[index].name
                   : fmt::format("type {}", type));
        }
      }
    }
  }

  struct DynamicSymbol {
    std::string name;
    uint64_t address;
    bool defined;
  };

  const std::string &name;
  llvm::StringRef bytes;
  const Chip &chip;
  CodeObject object;
  std::vector<DynamicSymbol> dynamicSymbols;
};

/// The entry of a clang offload bundle for a chip; the bytes themselves when they are no bundle.
llvm::StringRef unbundle(const std::string &name, llvm::StringRef bytes, const Chip &chip) {
  static constexpr llvm::StringRef magic = "__CLANG_OFFLOAD_BUNDLE__";
  if (!bytes.starts_with(magic)) {
    return bytes;
  }
  size_t at = magic.size();
  auto word = [&]() -> uint64_t {
    if (bytes.size() - at < 8) {
      fail(FaultKind::Syntax, "{}: expects a whole offload bundle, but got one that ends early", name);
    }
    uint64_t value;
    std::memcpy(&value, bytes.data() + at, 8);
    at += 8;
    return value;
  };
  std::string others;
  for (uint64_t count = word(), i = 0; i < count; ++i) {
    const uint64_t offset = word(), size = word(), length = word();
    if (length > bytes.size() - at || offset > bytes.size() || size > bytes.size() - offset) {
      fail(FaultKind::Syntax, "{}: expects a whole offload bundle, but got one that ends early", name);
    }
    const llvm::StringRef id = bytes.substr(at, length);
    at += length;
    const auto [kind, target] = id.rsplit("--");
    if (kind.starts_with("hip") && target.split(':').first == llvm::StringRef(chip.target.data(), chip.target.size())) {
      return bytes.substr(offset, size);
    }
    others += (others.empty() ? "" : ", ") + id.str();
  }
  fail(FaultKind::Unsupported, "{}: expects code for {}, but got a bundle of {}", name, chip.target, others);
}

} // namespace

std::string kvc::sim::amdgcn::targetOf(const std::string &name, const std::vector<uint8_t> &bytes) {
  constexpr size_t flagsOffset = 48;
  if (bytes.size() >= sizeof(ElfFile::Elf_Ehdr) && bytes[0] == 0x7f) {
    uint32_t flags = 0;
    std::memcpy(&flags, bytes.data() + flagsOffset, 4);
    return machineOf(flags);
  }
  fail(FaultKind::InvalidValue, "{}: expects the name of a chip for a bundle of code objects", name);
}

CodeObject kvc::sim::amdgcn::readCodeObject(const std::string &name, const std::vector<uint8_t> &bytes,
                                            const Chip &chip) {
  const llvm::StringRef all(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const llvm::StringRef found = unbundle(name, all, chip);
  // The ELF reader wants its headers aligned.
  const auto aligned = llvm::MemoryBuffer::getMemBufferCopy(found, name);
  return Reader(name, aligned->getBuffer(), chip).run();
}

//===- Elf.cpp - Checks of a shared object before it is loaded ------------===//
//
// Header and program headers only: what the loader maps.
//
//===----------------------------------------------------------------------===//
#include "cpu/Elf.h"

#include <cstring>
#include <elf.h>

namespace kvc::rt::cpu {
namespace {

#if defined(__x86_64__)
constexpr uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t machine = EM_AARCH64;
#else
constexpr uint16_t machine = EM_NONE;
#endif

Status corrupt(const char *message) { return Status(StatusCode::corrupt, message); }

} // namespace

Status verifySharedObject(std::span<const uint8_t> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) {
    return corrupt("expects a shared object, but the code is shorter than an ELF header");
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN || header.e_machine != machine) {
    return corrupt("expects a 64-bit ELF shared object for this machine, but got other code");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > bytes.size() ||
      header.e_phnum > (bytes.size() - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return corrupt("expects program headers inside the code, but they lie outside");
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) {
      return corrupt("expects segments inside the code, but one lies outside");
    }
  }
  return {};
}

} // namespace kvc::rt::cpu

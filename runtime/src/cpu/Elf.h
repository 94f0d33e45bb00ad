//===- Elf.h - Checks of a shared object before it is loaded ----*- C++ -*-===//
//
// The dynamic loader maps a file as its headers say and faults where they lie.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_CPU_ELF_H
#define KVC_CPU_ELF_H

#include "support/Result.h"

#include <cstdint>
#include <span>

namespace kvc::rt::cpu {

/// A 64-bit little-endian ELF shared object for this machine whose segments lie
/// inside the bytes. Errors: corrupt.
Status verifySharedObject(std::span<const uint8_t> bytes);

} // namespace kvc::rt::cpu

#endif // KVC_CPU_ELF_H

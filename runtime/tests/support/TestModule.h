//===- TestModule.h - An artifact for tests of the runtime ------*- C++ -*-===//
//
// A module with hand-written plans over the kernels of tests/kernels/kernels.c.
// The functions are listed in TestModule.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TESTS_SUPPORT_TESTMODULE_H
#define KVC_TESTS_SUPPORT_TESTMODULE_H

#include "artifact/Artifact.h"

namespace kvc::test {

/// The module as objects, for tests that change something before they seal it.
/// Cache specs: 0 = `plain`, 1 = `sealed` with a truncate function, 2 = `sealed`
/// without.
fb::ModuleT testModule();

/// The FlatBuffer of a module, and the bytes of an artifact.
std::vector<uint8_t> pack(const fb::ModuleT &module);
std::vector<uint8_t> sealed(const fb::ModuleT &module);

} // namespace kvc::test

#endif // KVC_TESTS_SUPPORT_TESTMODULE_H

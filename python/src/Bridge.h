//===- Bridge.h - The compiler as the Python module sees it -----*- C++ -*-===//
//
// The Python module is compiled with exceptions and without MLIR's headers; what it needs of the compiler passes
// through these functions, which are compiled as the compiler is. They may be called by several threads at a time.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_PYTHON_BRIDGE_H
#define KVC_PYTHON_BRIDGE_H

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::python {

/// The bytes of a .kvca for one target (empty: the best of this machine). `name` stands for the file in diagnostics;
/// a failure's message holds all of them, with the lines of the source.
Result<std::vector<uint8_t>> compileText(const std::string &text, const std::string &name, const std::string &target);

/// Whether a text is a type of a cache; the error says why not.
Status checkCacheType(const std::string &text);

/// The best target of this machine; empty when there is none.
std::string hostTarget();

/// Folder of compiled kernels and artifacts; empty when there is none.
std::string cacheFolder();

} // namespace kvc::python

#endif // KVC_PYTHON_BRIDGE_H

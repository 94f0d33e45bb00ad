//===- Record.h - Passed runs that can be repeated elsewhere ----*- C++ -*-===//
//
// A record is a folder's NAME.json with the calls of a run, NAME.bin with all arrays and NAME.kvca with the kernel:
// what a machine without the compiler and the oracle needs to run the calls and to judge the results (test/device).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TEST_DIFFERENTIAL_RECORD_H
#define KVC_TEST_DIFFERENTIAL_RECORD_H

#include "Session.h"

namespace kvc::differential {

/// Writes the calls of a session that passed, and the artifact of its kernel for `targets`. The error says what could
/// not be compiled or written.
llvm::Error writeRecord(Compiler &compiler, const Kernel &kernel, const Session &session, const CaseId &id,
                        llvm::ArrayRef<std::string> targets, llvm::StringRef cacheFolder, llvm::StringRef folder);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_RECORD_H

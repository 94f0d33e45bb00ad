//===- CommandLine.h - Tools with LLVM's command line -----------*- C++ -*-===//
#ifndef KVC_SUPPORT_COMMANDLINE_H
#define KVC_SUPPORT_COMMANDLINE_H

namespace kvc {

/// Leaves the options that LLVM's libraries have registered by now (those of its code generators) out of --help; they
/// work as before, and --help-hidden lists them. Called first in main.
void hideLibraryOptions();

} // namespace kvc

#endif // KVC_SUPPORT_COMMANDLINE_H

//===- Tokenize.h - kvc-run tokenize ----------------------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_RUN_TOKENIZE_H
#define KVC_TOOLS_KVC_RUN_TOKENIZE_H

#include <string>

namespace kvc {

/// The command line of `kvc-run tokenize`. One of text, textFile and idsFile is given.
struct TokenizeRun {
  std::string model;
  /// Text is the host's work; a device that does not exist is an error all the same.
  std::string device = "cpu";
  int threads = 0;
  bool hasText = false;
  std::string text, textFile, idsFile;
  bool special = false; ///< texts of control tokens become those tokens
  bool chat = false;    ///< the text is a user's turn
  bool json = false;
};

/// Runs it; false after an error, which is on stderr.
bool runTokenize(const TokenizeRun &run);

} // namespace kvc

#endif // KVC_TOOLS_KVC_RUN_TOKENIZE_H

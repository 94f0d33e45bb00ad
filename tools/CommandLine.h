//===- CommandLine.h - What the tools' command lines share ------*- C++ -*-===//
#ifndef KVC_TOOLS_COMMANDLINE_H
#define KVC_TOOLS_COMMANDLINE_H

#include <CLI/CLI.hpp>

#include <cmath>
#include <optional>
#include <string>

namespace kvc {

/// Parses a command line. A value when the tool shall end: 0 after --help, 1 after an error, which is on stderr.
inline std::optional<int> parseCommandLine(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // CLI11 has a number for each kind of error; the tools promise 1 for all.
    return app.exit(error) ? 1 : 0;
  }
  return std::nullopt;
}

/// A finite number of `low` to `high`; CLI::Range lets NaN through.
inline CLI::Validator finiteRange(double low, double high) {
  std::string name = "NUMBER in [" + CLI::detail::to_string(low) + " - " + CLI::detail::to_string(high) + "]";
  return CLI::Validator(
      [low, high, name](std::string &text) {
        double value;
        bool fits = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= low && value <= high;
        return fits ? std::string() : "expects a " + name + ", but got " + text;
      },
      name);
}

} // namespace kvc

#endif // KVC_TOOLS_COMMANDLINE_H

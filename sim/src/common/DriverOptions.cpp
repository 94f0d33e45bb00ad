//===- DriverOptions.cpp - Options of simulated drivers -------------------===//
#include "common/DriverOptions.h"

#include "common/Fault.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace kvc::sim;

static bool parseNumber(std::string_view text, uint64_t &value) {
  char *end = nullptr;
  const std::string copy(text);
  value = std::strtoull(copy.c_str(), &end, 10);
  return !copy.empty() && *end == '\0';
}

std::vector<std::string_view> kvc::sim::splitList(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

bool DriverOptions::set(std::string_view name, std::string_view value) {
  uint64_t number = 0;
  if (name == "checks") {
    SharedChecks checks{false, false};
    for (std::string_view check : splitList(value)) {
      if (check == "races") {
        checks.races = true;
      } else if (check == "uninitialised") {
        checks.uninitialised = true;
      } else if (check != "none") {
        return false;
      }
    }
    launch.checks = checks;
    return true;
  }
  if (name == "seed" && parseNumber(value, number)) {
    launch.seed = number;
    return true;
  }
  if (name == "threads" && parseNumber(value, number)) {
    launch.threads = unsigned(number);
    return true;
  }
  if (name == "limit" && parseNumber(value, number)) {
    launch.instructionLimit = number;
    return true;
  }
  if (name == "order" && (value == "reverse" || value == "forward")) {
    launch.reverseOrder = value == "reverse";
    return true;
  }
  if (name == "report") {
    reportPath = value;
    return true;
  }
  if ((name == "collect" || name == "log" || name == "instructions") && (value == "on" || value == "off")) {
    (name == "log" ? log : name == "collect" ? collect : instructions) = value == "on";
    return true;
  }
  return false;
}

void DriverOptions::report(std::string text) {
  if (!reportPath.empty()) {
    std::ofstream file(reportPath, std::ios::app);
    file << text << "\n";
    if (!file.flush()) {
      fail(FaultKind::Other, "expects a file that can be written in KVCSIM_REPORT, but got {}", reportPath);
    }
  }
  if (collect) {
    reports.push_back(std::move(text));
  }
}

const char *DriverOptions::take() {
  std::string text = "[";
  for (const std::string &report : reports) {
    text += (text.size() > 1 ? "," : "") + report;
  }
  reports.clear();
  taken = text + "]";
  return taken.c_str();
}

void DriverOptions::warn(const std::vector<std::string> &warnings) const {
  if (log) {
    for (const std::string &warning : warnings) {
      std::fprintf(stderr, "kvcsim: warning: %s\n", warning.c_str());
    }
  }
}

void DriverOptions::logError(const char *text) const {
  if (log) {
    std::fprintf(stderr, "kvcsim: error: %s\n", text);
  }
}

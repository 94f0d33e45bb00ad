//===- Report.cpp - One report of all parts -------------------------------===//
#include "Report.h"

#include <filesystem>
#include <sstream>

using namespace kvc;
using namespace kvc::device;

/// Exit statuses of `timeout`: of a part that was ended, and of one that had to be killed.
static constexpr int timedOut = 124, killed = 137;

/// Counts of GoogleTest's report, and the names of the tests that failed or were skipped.
static Json summaryOfTests(const Json &report) {
  Json failures = Json::array(), skipped = Json::array();
  int64_t passed = 0;
  for (const Json &suite : report.at("testsuites")) {
    for (const Json &test : suite.at("testsuite")) {
      const std::string name = suite.at("name").get<std::string>() + "." + test.at("name").get<std::string>();
      if (test.contains("failures")) {
        failures.push_back({{"test", name}, {"message", test.at("failures").at(0).at("failure")}});
      } else if (test.value("result", "") == "SKIPPED") {
        skipped.push_back(name);
      } else {
        ++passed;
      }
    }
  }
  return {{"passed", passed}, {"failed", failures.size()}, {"skipped", skipped}, {"failures", failures}};
}

static std::string endOf(const std::string &text, size_t bytes) {
  return text.size() <= bytes ? text : "..." + text.substr(text.size() - bytes);
}

Json device::mergeReport(const std::string &folder, const std::vector<std::string> &parts) {
  Json report{{"ok", true}, {"parts", Json::object()}};
  for (const std::string &part : parts) {
    const std::string base = folder + "/" + part;
    std::istringstream line(readFile(base + ".status"));
    int status = -1;
    double seconds = 0, limit = 0;
    std::string missing;
    line >> status >> seconds >> limit;
    std::getline(line >> std::ws, missing);
    Json entry{{"status", status}, {"seconds", seconds}, {"limit_seconds", limit}};
    if (!missing.empty()) {
      entry["not_run"] = missing;
    }
    if (status == timedOut || status == killed) {
      entry["error"] = fmt::format("ended after its limit of {} seconds", limit);
    }
    if (std::filesystem::exists(base + ".json")) {
      const Json results = Json::parse(readFile(base + ".json"), nullptr, /*allow_exceptions=*/false);
      if (results.is_discarded()) {
        entry["error"] = "wrote a report that is damaged";
        status = status ? status : 1;
      } else {
        entry["results"] = results.contains("testsuites") ? summaryOfTests(results) : results;
      }
    } else if (status == 0 && missing.empty()) {
      entry["error"] = "wrote no report";
      status = 1;
    }
    if (status != 0) {
      entry["log"] = endOf(readFile(base + ".log"), 4000);
    }
    entry["ok"] = status == 0;
    report["ok"] = report["ok"].get<bool>() && status == 0;
    report["parts"][part] = std::move(entry);
  }
  return report;
}

//===- SimReport.cpp - What ran, and what a simulator counted -------------===//
#include "SimReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"

#include <map>

using namespace kvc;
using nlohmann::json;

/// Locations that the table lists for a kernel.
static constexpr size_t listedLocations = 5;

Result<SimReport> SimReport::parse(const std::string &profile) {
  SimReport report;
  report.profile = json::parse(profile, nullptr, /*allow_exceptions=*/false);
  if (!report.profile.is_array()) {
    return Status(StatusCode::internal, "expects a list of dispatches in the runtime's profile, but got other text");
  }
  return report;
}

json SimReport::dispatches() const {
  json list = json::array();
  for (const json &entry : profile) {
    json instructions;
    if (entry.contains("counters")) {
      instructions = entry["counters"]["totals"]["instructions"];
    }
    list.push_back({{"function", entry["function"]},
                    {"kernel", entry["kernel"]},
                    {"device", entry["device"]},
                    {"items", entry["items"]},
                    {"instructions", instructions}});
  }
  return list;
}

/// Adds the numbers of `from` to those of `to`; what is no number is taken over.
static void addNumbers(json &to, const json &from) {
  for (const auto &[name, value] : from.items()) {
    if (!to.contains(name) || !value.is_number()) {
      to[name] = value;
    } else if (value.is_number_float()) {
      to[name] = to[name].get<double>() + value.get<double>();
    } else {
      to[name] = to[name].get<uint64_t>() + value.get<uint64_t>();
    }
  }
}

json SimReport::kernels() const {
  json list = json::array();
  std::map<std::string, size_t> known;
  std::vector<std::map<std::string, json>> locations;
  for (const json &entry : profile) {
    if (!entry.contains("counters")) {
      continue;
    }
    const json &counters = entry["counters"];
    auto [found, isNew] = known.emplace(counters["kernel"].get<std::string>(), list.size());
    if (isNew) {
      list.push_back({{"kernel", counters["kernel"]}, {"launches", 0}});
      locations.emplace_back();
    }
    json &sum = list[found->second];
    sum["launches"] = sum["launches"].get<uint64_t>() + 1;
    for (const char *part : {"totals", "classes", "model"}) {
      if (counters.contains(part)) {
        addNumbers(sum[part], counters[part]);
      }
    }
    // Machine code without line tables has none.
    for (const json &location : counters.value("locations", json::array())) {
      addNumbers(locations[found->second][location["location"].get<std::string>()], location);
    }
  }
  for (auto [sum, places] : llvm::zip_equal(list, locations)) {
    std::vector<json> sorted;
    for (auto &[name, counts] : places) {
      sorted.push_back(std::move(counts));
    }
    llvm::sort(sorted, [](const json &a, const json &b) {
      return std::pair(b["issued"].get<uint64_t>(), a["location"].get<std::string>()) <
             std::pair(a["issued"].get<uint64_t>(), b["location"].get<std::string>());
    });
    sum["locations"] = std::move(sorted);
  }
  return list;
}

void SimReport::print(llvm::raw_ostream &os) const {
  for (const json &kernel : kernels()) {
    os << "kernel " << kernel["kernel"].get<std::string>() << ", " << kernel["launches"].get<uint64_t>()
       << " launches\n";
    auto line = [&](llvm::StringRef name, const json &value) {
      os << llvm::format("  %-26s %16llu\n", name.str().c_str(), (unsigned long long)value.get<uint64_t>());
    };
    for (const auto &[name, value] : kernel["totals"].items()) {
      line(name, value);
    }
    for (const auto &[name, value] : kernel["classes"].items()) {
      line("class " + name, value);
    }
    if (kernel.contains("model")) {
      os << "  model (us):";
      for (const auto &[name, value] : kernel["model"].items()) {
        if (value.is_number()) {
          os << ' ' << name << ' ' << llvm::format("%.3g", value.get<double>());
        }
      }
      os << "; " << kernel["model"].value("note", "") << '\n';
    }
    for (const json &location :
         llvm::ArrayRef(kernel["locations"].get_ref<const json::array_t &>()).take_front(listedLocations)) {
      line("at " + location["location"].get<std::string>(), location["issued"]);
    }
  }
}

Status kvc::checkSimulated(const std::string &device) {
  if (!llvm::StringRef(device).starts_with("sim:")) {
    return Status(StatusCode::invalidArgument,
                  "expects --device sim:<chip> with --sim-report, as other devices count nothing, but got '" + device +
                      "'");
  }
  return {};
}

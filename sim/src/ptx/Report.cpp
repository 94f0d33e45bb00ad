//===- Report.cpp - Counters of a launch ----------------------------------===//
#include "ptx/Report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

using namespace kvc::sim;
using namespace kvc::sim::ptx;
using nlohmann::json;

Totals kvc::sim::ptx::totalsOf(const Program &program, const std::vector<InstCounters> &counters) {
  Totals totals;
  for (size_t i = 0; i < counters.size(); ++i) {
    const Inst &inst = program.code[i];
    const InstCounters &c = counters[i];
    totals.issued[static_cast<size_t>(inst.kind)] += c.issued;
    totals.instructions += c.issued;
    totals.laneInstructions += c.lanes;
    // A matrix instruction is one of all lanes of a warp.
    totals.mmaFlops += c.lanes / laneCount * 2 * inst.macs;
    totals.ex2 += program.source[i].instruction->opcode == "ex2" ? c.lanes : 0;
    switch (inst.kind) {
    case Class::LoadGlobal:
      totals.globalLoadBytes += c.sectors ? c.bytes : 0;
      totals.globalLoadSectors += c.sectors;
      break;
    case Class::AsyncCopy:
      totals.globalLoadBytes += c.bytes;
      totals.globalLoadSectors += c.sectors;
      break;
    case Class::StoreGlobal:
    case Class::Atomic:
      totals.globalStoreBytes += c.sectors ? c.bytes : 0;
      totals.globalStoreSectors += c.sectors;
      break;
    case Class::Barrier:
      totals.barriers += c.issued;
      break;
    default:
      break;
    }
    totals.sharedWavefronts += c.wavefronts;
    totals.sharedIdealWavefronts += c.idealWavefronts;
  }
  for (size_t i = 0; i < totals.issued.size(); ++i) {
    if (totals.issued[i] != 0) {
      totals.classes.emplace_back(nameOf(static_cast<Class>(i)), totals.issued[i]);
    }
  }
  return totals;
}

const ChipRates *kvc::sim::ptx::ratesOf(unsigned sm) {
  // Per SM and cycle; boost clocks and memory bandwidths of A100 80GB, RTX 3090, RTX 4090, H100 SXM, B200, B300, RTX
  // 5090.
  static constexpr ChipRates table[] = {
      {80, 108, 2048, 64, 16, 4, 128, 1.41, 2039},    {86, 82, 512, 128, 16, 4, 128, 1.695, 936},
      {89, 128, 512, 128, 16, 4, 128, 2.52, 1008},    {90, 132, 4096, 128, 16, 4, 128, 1.98, 3352},
      {100, 148, 8192, 128, 16, 4, 128, 1.965, 8000}, {103, 148, 8192, 128, 32, 4, 128, 1.965, 8000},
      {120, 170, 512, 128, 16, 4, 128, 2.407, 1792},
  };
  for (const ChipRates &rates : table) {
    if (rates.sm == sm) {
      return &rates;
    }
  }
  return nullptr;
}

ModelTimes kvc::sim::ptx::modelTimes(const Totals &totals, const ChipRates &rates) {
  // Cycles of one SM with an even share of the work, in microseconds.
  auto time = [&](double work, double perCycle) {
    return work / perCycle / rates.multiprocessors / (rates.gigahertz * 1e3);
  };
  auto issued = [&](Class c) { return double(totals.issued[static_cast<size_t>(c)]); };
  const double sectors = double(totals.globalLoadSectors + totals.globalStoreSectors);
  return {time(double(totals.mmaFlops), rates.mmaFlops),
          time(double(totals.instructions), rates.issues),
          time(issued(Class::Float32) * laneCount, rates.f32Lanes),
          time(issued(Class::Special) * laneCount, rates.specialLanes),
          time(double(totals.sharedWavefronts) * 128, rates.sharedBytes),
          sectors * 32 / (rates.gigabytesPerSecond * 1e3)};
}

static std::string locationOf(const Program &program, const Instruction &instruction) {
  const Location &location = instruction.location;
  if (location.line == 0) {
    return "";
  }
  const auto &files = program.module->files;
  return fmt::format("{}:{}:{}", location.file < files.size() ? files[location.file] : "?", location.line,
                     location.column);
}

json kvc::sim::ptx::reportJson(const Program &program, const LaunchResult &result, bool instructions,
                               const ChipRates *rates) {
  const Totals totals = totalsOf(program, result.counters);
  const std::optional<ModelTimes> times = rates ? std::optional(modelTimes(totals, *rates)) : std::nullopt;
  json report = totalsJson(program.name, totals, times ? &*times : nullptr);
  // By source location, in the order of the code.
  std::vector<std::pair<std::string, InstCounters>> locations;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < result.counters.size(); ++i) {
    const std::string name = locationOf(program, *program.source[i].instruction);
    if (name.empty() || result.counters[i].issued == 0) {
      continue;
    }
    auto [found, isNew] = known.emplace(name, locations.size());
    if (isNew) {
      locations.emplace_back(name, InstCounters());
    }
    locations[found->second].second.add(result.counters[i]);
  }
  json &byLocation = report["locations"] = json::array();
  for (const auto &[name, sum] : locations) {
    json entry = countersJson(sum);
    entry["location"] = name;
    byLocation.push_back(std::move(entry));
  }
  json &blocks = report["blocks"] = json::array();
  for (const auto &[index, label] : program.labels) {
    if (index < result.counters.size()) {
      blocks.push_back({{"label", label},
                        {"line", program.source[index].instruction->line},
                        {"issued", result.counters[index].issued}});
    }
  }
  if (instructions) {
    json &all = report["instructions"] = json::array();
    for (size_t i = 0; i < result.counters.size(); ++i) {
      json entry = countersJson(result.counters[i]);
      entry["lanes"] = result.counters[i].lanes;
      entry["line"] = program.source[i].instruction->line;
      entry["text"] = program.source[i].instruction->text;
      all.push_back(std::move(entry));
    }
  }
  report["warnings"] = result.warnings;
  return report;
}

std::string kvc::sim::ptx::reportText(const Program &program, const LaunchResult &result, const ChipRates *rates) {
  const Totals totals = totalsOf(program, result.counters);
  const std::optional<ModelTimes> times = rates ? std::optional(modelTimes(totals, *rates)) : std::nullopt;
  return totalsText(program.name, totals, times ? &*times : nullptr);
}

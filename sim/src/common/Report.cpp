//===- Report.cpp - What reports of launches have in common ---------------===//
#include "common/Report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace kvc::sim;
using nlohmann::json;

double ModelTimes::largest() const { return std::max({tensor, issue, f32, special, shared, dram}); }

json kvc::sim::totalsJson(std::string_view kernel, const LaunchTotals &totals, const ModelTimes *times) {
  json report;
  report["kernel"] = kernel;
  report["totals"] = {{"instructions", totals.instructions},
                      {"lane_instructions", totals.laneInstructions},
                      {"mma_flops", totals.mmaFlops},
                      {"ex2", totals.ex2},
                      {"global_load_bytes", totals.globalLoadBytes},
                      {"global_store_bytes", totals.globalStoreBytes},
                      {"global_load_sectors", totals.globalLoadSectors},
                      {"global_store_sectors", totals.globalStoreSectors},
                      {"shared_wavefronts", totals.sharedWavefronts},
                      {"shared_ideal_wavefronts", totals.sharedIdealWavefronts},
                      {"shared_conflicts", totals.sharedWavefronts - totals.sharedIdealWavefronts},
                      {"barriers", totals.barriers}};
  json &classes = report["classes"] = json::object();
  for (const auto &[name, issued] : totals.classes) {
    classes[std::string(name)] = issued;
  }
  if (times) {
    report["model"] = {{"note", "a model from published rates, no measurement"},
                       {"tensor_us", times->tensor},
                       {"issue_us", times->issue},
                       {"f32_us", times->f32},
                       {"special_us", times->special},
                       {"shared_us", times->shared},
                       {"dram_us", times->dram},
                       {"bound_us", times->largest()}};
  }
  return report;
}

std::string kvc::sim::totalsText(std::string_view kernel, const LaunchTotals &totals, const ModelTimes *times) {
  std::string text = fmt::format("kernel {}\n", kernel);
  auto line = [&](std::string_view name, uint64_t value) { text += fmt::format("  {:<26} {:>16}\n", name, value); };
  line("warp instructions", totals.instructions);
  for (const auto &[name, issued] : totals.classes) {
    line(fmt::format("  {}", name), issued);
  }
  line("lane instructions", totals.laneInstructions);
  line("mma flops", totals.mmaFlops);
  line("ex2", totals.ex2);
  line("global load bytes", totals.globalLoadBytes);
  line("global load sectors", totals.globalLoadSectors);
  line("global store bytes", totals.globalStoreBytes);
  line("global store sectors", totals.globalStoreSectors);
  line("shared wavefronts", totals.sharedWavefronts);
  line("shared bank conflicts", totals.sharedWavefronts - totals.sharedIdealWavefronts);
  line("barriers", totals.barriers);
  if (times) {
    text += fmt::format(
        "  model from published rates, no measurement (us): tensor {:.3g}, issue {:.3g}, f32 {:.3g}, special {:.3g}, "
        "shared {:.3g}, dram {:.3g}\n",
        times->tensor, times->issue, times->f32, times->special, times->shared, times->dram);
  }
  return text;
}

json kvc::sim::countersJson(const InstCounters &counters) {
  json entry = {{"issued", counters.issued}};
  if (counters.bytes != 0) {
    entry["bytes"] = counters.bytes;
    entry["sectors"] = counters.sectors;
    entry["wavefronts"] = counters.wavefronts;
    entry["ideal_wavefronts"] = counters.idealWavefronts;
  }
  return entry;
}

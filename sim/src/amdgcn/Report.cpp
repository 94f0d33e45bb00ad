//===- Report.cpp - Counters of a launch ----------------------------------===//
#include "amdgcn/Report.h"

#include "amdgcn/Exec.h"
#include "amdgcn/Matrix.h"
#include "common/Report.h"

#include <array>
#include <nlohmann/json.hpp>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;
using nlohmann::json;

namespace {

struct Totals : LaunchTotals {
  /// Lanes of vector arithmetic and of transcendentals.
  uint64_t vectorLanes = 0, specialLanes = 0;
};

Totals totalsOf(const Program &program, const std::vector<InstCounters> &counters) {
  Totals totals;
  std::array<uint64_t, size_t(Class::Count)> issued{};
  for (size_t i = 0; i < counters.size(); ++i) {
    const Inst &inst = program.code[i];
    const InstCounters &c = counters[i];
    issued[size_t(inst.kind)] += c.issued;
    totals.instructions += c.issued;
    totals.laneInstructions += c.lanes;
    totals.mmaFlops += inst.shape ? c.issued * 2 * inst.shape->macs() : 0;
    totals.ex2 += program.source[i].name.starts_with("v_exp_") ? c.lanes : 0;
    switch (inst.kind) {
    case Class::Load:
    case Class::ScalarLoad:
      totals.globalLoadBytes += c.bytes;
      totals.globalLoadSectors += c.sectors;
      break;
    case Class::Store:
    case Class::Atomic:
      totals.globalStoreBytes += c.bytes;
      totals.globalStoreSectors += c.sectors;
      break;
    case Class::Barrier:
      totals.barriers += c.issued;
      break;
    case Class::Vector:
    case Class::Packed:
      totals.vectorLanes += c.lanes;
      break;
    case Class::Transcendental:
      totals.specialLanes += c.lanes;
      break;
    default:
      break;
    }
    totals.sharedWavefronts += c.wavefronts;
    totals.sharedIdealWavefronts += c.idealWavefronts;
  }
  for (size_t i = 0; i < issued.size(); ++i) {
    if (issued[i] != 0) {
      totals.classes.emplace_back(nameOf(static_cast<Class>(i)), issued[i]);
    }
  }
  return totals;
}

ModelTimes modelOf(const Chip &chip, const Totals &t) {
  auto time = [&](double work, double perCycle) { return work / perCycle / chip.computeUnits / (chip.clockKhz / 1e3); };
  return {time(double(t.mmaFlops), chip.matrixFlops),
          time(double(t.instructions), chip.issues),
          time(double(t.vectorLanes), chip.f32Lanes),
          time(double(t.specialLanes), chip.specialLanes),
          time(double(t.sharedWavefronts) * chip.ldsBanks * 4, chip.sharedBytes),
          double(t.globalLoadSectors + t.globalStoreSectors) * 32 / (chip.gigabytesPerSecond * 1e3)};
}

} // namespace

json kvc::sim::amdgcn::reportJson(const Program &program, const LaunchResult &result, bool instructions) {
  const Totals totals = totalsOf(program, result.counters);
  const KernelInfo &kernel = *program.kernel;
  const ModelTimes times = modelOf(*program.chip, totals);
  json report = totalsJson(program.name, totals, &times);
  report["resources"] = {{"vgprs", kernel.vgprs},
                         {"agprs", kernel.agprs},
                         {"sgprs", kernel.sgprs},
                         {"vgpr_spills", kernel.vgprSpills},
                         {"sgpr_spills", kernel.sgprSpills},
                         {"lds_bytes", kernel.ldsBytes},
                         {"private_bytes", kernel.privateBytes}};
  if (instructions) {
    json &all = report["instructions"] = json::array();
    for (size_t i = 0; i < result.counters.size(); ++i) {
      const InstCounters &c = result.counters[i];
      json entry = countersJson(c);
      entry["lanes"] = c.lanes;
      entry["address"] = program.source[i].address - kernel.entry;
      entry["text"] = program.source[i].text;
      all.push_back(std::move(entry));
    }
  }
  report["warnings"] = result.warnings;
  return report;
}

std::string kvc::sim::amdgcn::reportText(const Program &program, const LaunchResult &result) {
  const Totals totals = totalsOf(program, result.counters);
  const ModelTimes times = modelOf(*program.chip, totals);
  return totalsText(program.name, totals, &times);
}

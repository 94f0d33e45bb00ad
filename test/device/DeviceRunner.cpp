//===- DeviceRunner.cpp - Parts of utils/device-check ---------------------===//
//
// What runs on a machine with a GPU and nothing else. Exit status: 0, 1 when something fails, 2 for a wrong command
// line.
//
//===----------------------------------------------------------------------===//
#include "Benchmark.h"
#include "Cases.h"
#include "Report.h"
#include "Steps.h"

#include <CLI/CLI.hpp>

using namespace kvc;
using namespace kvc::device;

/// The GPU by name, and what its driver says of it.
static Json describe(const std::string &deviceName) {
  const DriverContext gpu(deviceName);
  char name[256] = "";
  int version = 0;
  size_t bytes = 0;
  gpu.check(gpu->cuDeviceGetName(name, sizeof(name), gpu.device()), "cannot ask for the name");
  gpu.check(gpu->cuDriverGetVersion(&version), "cannot ask for the driver's version");
  gpu.check(gpu->cuDeviceTotalMem_v2(&bytes, gpu.device()), "cannot ask for the memory");
  Json info{{"device", deviceName},
            {"name", name},
            {"simulated", gpu.isSimulated()},
            {"driver_api", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
            {"memory_bytes", bytes}};
  // Numbers of the driver's interface.
  static constexpr std::pair<const char *, int> attributes[] = {
      {"compute_major", 75},    {"compute_minor", 76},   {"multiprocessors", 16}, {"clock_khz", 13},
      {"memory_clock_khz", 36}, {"memory_bus_bits", 37}, {"l2_bytes", 38},        {"shared_bytes_per_block", 97}};
  for (auto [key, attribute] : attributes) {
    int value = 0;
    gpu.check(gpu->cuDeviceGetAttribute(&value, attribute, gpu.device()), key);
    info[key] = value;
  }
  fmt::print("{}: {}, compute capability {}.{}, {} multiprocessors, driver for CUDA {}\n", deviceName, name,
             info["compute_major"].get<int>(), info["compute_minor"].get<int>(), info["multiprocessors"].get<int>(),
             info["driver_api"].get<std::string>());
  return info;
}

int main(int argc, char **argv) {
  CLI::App app{"Parts of utils/device-check: a GPU without a compiler, an oracle or Python."};
  app.require_subcommand(1);
  std::string device = "cuda:0", folder, json;
  std::vector<std::string> only, parts;
  double seconds = 1e9;
  bool small = false;
  auto add = [&](const char *name, const char *what, bool needsDevice) {
    CLI::App *command = app.add_subcommand(name, what);
    if (needsDevice) {
      command->add_option("--device", device, "cuda:N, or sim:<chip>")->capture_default_str();
    }
    command->add_option("--json", json, "where to write the results");
    return command;
  };
  CLI::App *info = add("info", "Names the GPU and its driver.", true);
  CLI::App *cases = add("cases", "Runs recorded cases of the differential test.", true);
  cases->add_option("folder", folder, "the folder of the records")->required();
  cases->add_option("--only", only, "names of records, without .json")->delimiter(',');
  cases->add_option("--seconds", seconds, "begin no case after this time");
  CLI::App *bench = add("bench", "Measures attention beside a copy and a product of matrices.", true);
  bench->add_option("folder", folder, "the folder of the compiled modules")->required();
  bench->add_flag("--small", small, "sizes for a simulator");
  CLI::App *steps = add("steps", "Compares decode steps that are replayed as a graph with steps that are not.", true);
  steps->add_option("folder", folder, "the folder of the compiled modules")->required();
  steps->add_flag("--small", small, "sizes for a simulator");
  CLI::App *modules = app.add_subcommand("bench-modules", "Writes the modules that are measured, to be compiled.");
  modules->add_option("folder", folder, "where to")->required();
  CLI::App *report = add("report", "Merges what parts left in a folder.", false);
  report->add_option("folder", folder, "the folder with PART.status, PART.json and PART.log")->required();
  report->add_option("parts", parts, "names of parts, in order")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) ? 2 : 0;
  }
  try {
    Json results;
    bool ok = true;
    if (info->parsed()) {
      results = describe(device);
    } else if (cases->parsed()) {
      results = runCases(device, folder, only, seconds);
      ok = results.at("failed") == 0 && results.at("left_out") == 0;
    } else if (bench->parsed()) {
      results = runBenchmarks(device, folder, small);
    } else if (steps->parsed()) {
      results = runSteps(device, folder, small);
    } else if (modules->parsed()) {
      writeBenchmarks(folder);
    } else {
      results = mergeReport(folder, parts);
      ok = results.at("ok");
    }
    if (!json.empty()) {
      writeFile(json, results.dump(2) + "\n");
    }
    return ok ? 0 : 1;
  } catch (const std::exception &error) {
    std::fflush(stdout);
    fmt::print(stderr, "kvc-device-runner: error: {}\n", error.what());
    return 1;
  }
}

//===- Suite.cpp - The differential suite and its report ------------------===//
#include "Suite.h"

#include "Covering.h"
#include "Mutants.h"
#include "Record.h"
#include "Session.h"
#include "Worker.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <ctime>
#include <sys/time.h>
#include <unistd.h>

using namespace kvc;
using namespace kvc::differential;
using llvm::StringRef;

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of the processor that this process took: another process at work does not make it more.
static double processorTime() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

static bool usageError(const llvm::Twine &message) {
  llvm::errs() << "kvc-differential: " << message << "\n";
  return false;
}

/// Diagnostics on one line, without the separators of answers.
static std::string oneLine(StringRef text) {
  std::string line = text.trim().str();
  for (char &c : line) {
    c = c == '\n' || c == '\t' ? ' ' : c;
  }
  return line;
}

//===----------------------------------------------------------------------===//
// One process
//===----------------------------------------------------------------------===//

namespace {
/// Null when the options name none that there is.
const Target *targetOf(const SuiteOptions &options) {
  return options.target.empty() ? getHostTarget() : lookupTarget(options.target);
}

/// What a process needs for any number of kernels.
class Bench {
public:
  explicit Bench(const SuiteOptions &options) {
    kernelOptions.cacheFolder = options.cacheFolder.empty() ? getDefaultCacheFolder() : options.cacheFolder;
    if (!options.kernelMutant.empty()) {
      kernelOptions.mutation = *getKernelMutation(options.kernelMutant, options.mutatedKernel);
    }
    kernelOptions.target = targetOf(options);
    oracle = createOracle(options.oracleMutant);
    deviceName = options.device;
    createDevices();
  }

  std::unique_ptr<Kernel> compile(const Config &config) {
    auto kernel = differential::compile(compiler, config, kernelOptions);
    if (!error.empty()) {
      kernel->outcome = Outcome::Failed;
      kernel->message = error;
    }
    return kernel;
  }

  /// The kernel's artifact on the device with 1 or 2 threads.
  kvc_module_t *load(Kernel &kernel, int threads) {
    runtime::ModuleHandle &code = kernel.code[threads - 1];
    if (!code) {
      kvc_module_t *made = nullptr;
      if (kvc_module_load_bytes(devices[threads - 1].get(), kernel.artifact.data(), kernel.artifact.size(), nullptr,
                                &made) != KVC_OK) {
        return nullptr;
      }
      code.reset(made);
    }
    return code.get();
  }

  /// Runs a case; empty when it passes. With `repeat` also: the same bits again, and with two threads.
  std::string run(Kernel &kernel, const CaseId &id, bool repeat, ErrorTable *errors,
                  std::optional<Session> *keep = nullptr) {
    if (hasFailed) {
      restart(kernel);
    }
    uint64_t bits = 0;
    static constexpr int threadsOfRun[] = {1, 1, 2};
    for (auto [number, threads] : llvm::enumerate(llvm::ArrayRef(threadsOfRun).take_front(repeat ? 3 : 1))) {
      kvc_module_t *code = load(kernel, threads);
      if (!code) {
        return std::string("the runtime says: ") + kvc_last_error_message();
      }
      Session session(kernel, devices[threads - 1].get(), code, id, *oracle);
      std::string failure = session.run();
      if (errors) {
        for (const auto &[row, worst] : session.errors) {
          (*errors)[row].merge(worst);
        }
      }
      if (failure.empty() && number && session.bits != bits) {
        failure = "expects the same bits in every run, but got others in run " + std::to_string(number + 1) + " with " +
                  std::to_string(threads) + " thread" + (threads == 1 ? "" : "s");
      }
      bits = session.bits;
      if (keep && !number) {
        keep->emplace(std::move(session));
      }
      hash = bits;
      if (!failure.empty()) {
        hasFailed = true;
        return failure;
      }
    }
    return "";
  }

  /// The kernel's assembly: where its code was not made from a text, what would give that code.
  llvm::FailureOr<std::string> assemblyOf(const Kernel &kernel) {
    return kernel.generated.assembly.empty()
               ? getBackend(*kernel.target).emit(*kernel.lowered, *kernel.target, CodeForm::Assembly)
               : kernel.generated.assembly;
  }

  /// The kernel with another assembly, or, where its code was not made from a text, with other code.
  bool replaceAssembly(Kernel &kernel, const std::string &text) {
    restart(kernel);
    if (kernel.generated.assembly.empty()) {
      kernel.generated.code.assign(text.begin(), text.end());
    } else {
      kernel.generated.assembly = text;
    }
    llvm::FailureOr<std::vector<uint8_t>> bytes = compiler.pack(*kernel.lowered, *kernel.target, kernel.generated);
    if (failed(bytes)) {
      return false;
    }
    kernel.artifact = std::move(*bytes);
    return true;
  }

  Compiler compiler;
  KernelOptions kernelOptions;
  /// Of the results of the last run.
  uint64_t hash = 0;

private:
  /// Devices are made anew: after a kernel that failed they refuse all work.
  void restart(Kernel &kernel) {
    for (runtime::ModuleHandle &code : kernel.code) {
      code.reset();
    }
    createDevices();
    hasFailed = false;
  }
  void createDevices() {
    devices.clear();
    for (int threads = 1; threads <= 2; ++threads) {
      kvc_device_options_t device{sizeof(device), threads, nullptr};
      kvc_device_t *made = nullptr;
      if (kvc_device_create(deviceName.c_str(), &device, &made) != KVC_OK) {
        error = kvc_last_error_message();
      }
      devices.emplace_back(made);
    }
  }

  std::string deviceName;
  std::vector<runtime::DeviceHandle> devices;
  std::unique_ptr<reference::Evaluator> oracle;
  std::string error;
  bool hasFailed = false;
};
} // namespace

/// Ends the process when what follows takes this long: seconds of its processor, or, for what waits without using any,
/// many times as much by the clock.
static void limitTime(int seconds = 120) {
  constexpr int clockFactor = 10;
  const itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(seconds * clockFactor);
}
/// Every so many runs one is done three times.
static constexpr unsigned repeatEvery = 8;

/// Runs a case and, where it passes, records it.
static std::string runAndRecord(Bench &bench, Kernel &kernel, const CaseId &id, const SuiteOptions &options,
                                ErrorTable &errors) {
  std::optional<Session> session;
  std::string failure = bench.run(kernel, id, id.seed % repeatEvery == 0, &errors, &session);
  if (!failure.empty() || options.recordFolder.empty()) {
    return failure;
  }
  llvm::SmallVector<StringRef> names;
  const StringRef list = options.recordTargets;
  (list.empty() ? StringRef(kernel.target->name) : list).split(names, ',');
  const std::vector<std::string> targets(names.begin(), names.end());
  limitTime();
  return llvm::toString(writeRecord(bench.compiler, kernel, *session, id, targets, bench.kernelOptions.cacheFolder,
                                    options.recordFolder));
}

static Work startWorker(const SuiteOptions &options) {
  auto bench = std::make_shared<Bench>(options);
  return [bench, options](const std::string &job, const std::function<void(const std::string &)> &answer) {
    llvm::SmallVector<StringRef> parts;
    StringRef(job).split(parts, '\t');
    llvm::Expected<CaseId> first = parseCase(parts[1]);
    if (!first) {
      answer("outcome\t3\t" + llvm::toString(first.takeError()));
      return;
    }
    limitTime();
    const double begin = processorTime();
    std::unique_ptr<Kernel> kernel = bench->compile(first->config);
    answer("outcome\t" + std::to_string(int(kernel->outcome)) + "\t" + oneLine(kernel->message));
    answer("compiled\t" + std::to_string(processorTime() - begin));
    if (kernel->outcome != Outcome::Ready) {
      return;
    }
    ErrorTable errors;
    const double compiled = processorTime();
    for (size_t i = 1; i < parts.size(); ++i) {
      llvm::Expected<CaseId> id = parseCase(parts[i]);
      if (!id) {
        llvm::consumeError(id.takeError());
        continue;
      }
      limitTime();
      answer("begin\t" + std::to_string(i - 1));
      answer("case\t" + std::to_string(i - 1) + "\t" + oneLine(runAndRecord(*bench, *kernel, *id, options, errors)));
    }
    for (const auto &[row, worst] : errors) {
      answer(llvm::formatv("errors\t{0}\t{1:e6}\t{2:e6}\t{3}", row - getTolerances().begin(), worst.peak, worst.rms,
                           worst.elements));
    }
    answer("ran\t" + std::to_string(processorTime() - compiled));
  };
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

namespace {
class Report {
public:
  explicit Report(const SuiteOptions &options) : options(options) {}

  void passed(const CaseId &id) {
    ++passes;
    for (uint8_t a = 0; a < allAxes; ++a) {
      for (uint8_t b = a + 1; b < allAxes; ++b) {
        met.insert({{a, id.number(a)}, {b, id.number(b)}});
      }
    }
  }

  void failed(const CaseId &id, StringRef message) {
    ++failures;
    if (failures <= 60) {
      llvm::outs() << "FAIL " << id.str() << "\n     " << message << "\n     to repeat: kvc-differential "
                   << mutantOptions() << "--case '" << id.str() << "'\n";
      llvm::outs().flush();
    }
  }

  void error(StringRef message) {
    ++failures;
    llvm::outs() << "FAIL " << message << "\n";
  }

  /// Counts of pairs for every two axes: met / legal. Returns the legal pairs that were not met.
  std::vector<Pair> printPairs(const std::set<AxisValue> &excluded, const std::map<Pair, std::string> &refused) {
    std::vector<Pair> missing;
    auto axes = getAxes();
    llvm::outs() << "\npairs of values that met in a passed run / legal pairs\n" << llvm::format("%-14s", "");
    for (unsigned b = 1; b < allAxes; ++b) {
      llvm::outs() << llvm::format("%9s", axes[b].name.take_front(8).str().c_str());
    }
    llvm::outs() << "\n";
    size_t legal = 0, covered = 0;
    for (uint8_t a = 0; a + 1 < allAxes; ++a) {
      llvm::outs() << llvm::format("%-14s", axes[a].name.str().c_str());
      for (uint8_t b = 1; b < allAxes; ++b) {
        if (b <= a) {
          llvm::outs() << llvm::format("%9s", "");
          continue;
        }
        size_t here = 0, all = 0;
        for (uint8_t x = 0; x < axes[a].values.size(); ++x) {
          for (uint8_t y = 0; y < axes[b].values.size(); ++y) {
            const Pair pair{{a, x}, {b, y}};
            if (excluded.contains(pair.first) || excluded.contains(pair.second) || refused.contains(pair)) {
              continue;
            }
            ++all;
            if (met.contains(pair)) {
              ++here;
            } else {
              missing.push_back(pair);
            }
          }
        }
        llvm::outs() << llvm::format("%9s", (std::to_string(here) + "/" + std::to_string(all)).c_str());
        legal += all;
        covered += here;
      }
      llvm::outs() << "\n";
    }
    llvm::outs() << covered << " of " << legal << " legal pairs met\n";
    return missing;
  }

  /// Where the time went: seconds in all, and the kernels that took most of them.
  void printTimes(StringRef what, const std::map<size_t, double> &times, llvm::ArrayRef<Config> configs) const {
    double sum = 0;
    std::vector<std::pair<double, size_t>> order;
    for (auto [job, seconds] : times) {
      sum += seconds;
      order.emplace_back(seconds, job);
    }
    llvm::sort(order, std::greater<>());
    llvm::outs() << llvm::formatv("\n{0}: {1:f1} s of a processor; longest\n", what, sum);
    for (auto [seconds, job] : llvm::ArrayRef(order).take_front(8)) {
      llvm::outs() << llvm::formatv("{0,8:f1} s  {1}\n", seconds, nameOf(configs[job]));
    }
  }

  void printErrors() {
    llvm::outs() << "\nworst errors for each unit of growth (accumulated in f32), and the bound of the table\n"
                 << llvm::formatv("{0,-15}{1,-8}{2,12}{3,10}{4,12}{5,10}{6,12}\n", "result", "storage", "peak", "bound",
                                  "rms", "bound", "elements");
    for (const auto &[row, worst] : errors) {
      const Tolerance &t = getTolerances()[row];
      llvm::outs() << llvm::formatv("{0,-15}{1,-8}{2,12:e2}{3,10:e1}{4,12:e2}{5,10:e1}{6,12}\n", t.result, t.storage,
                                    worst.peak, t.bound.peak, worst.rms, t.bound.rms, worst.elements);
    }
  }

  std::string mutantOptions() const {
    auto option = [](StringRef name, StringRef value) {
      return value.empty() ? "" : ("--" + name + " " + value + " ").str();
    };
    return option("mutate-kernel", options.kernelMutant) + option("mutated-kernel", options.mutatedKernel) +
           option("mutate-oracle", options.oracleMutant);
  }

  const SuiteOptions &options;
  int64_t passes = 0, failures = 0, skips = 0;
  std::map<size_t, Errors> errors;
  /// By job.
  std::map<size_t, double> compileSeconds, runSeconds;

private:
  std::set<Pair> met;
};
} // namespace

static void progress(size_t done, size_t all, const char *what) {
  if (isatty(STDERR_FILENO)) {
    llvm::errs() << "\r" << what << " " << done << "/" << all << (done == all ? "\n" : "");
  }
}

/// Messages with the values or pairs that they refuse.
template <typename Map, typename Name> static void printGrouped(StringRef title, const Map &map, Name &&name) {
  if (map.empty()) {
    return;
  }
  std::map<std::string, std::vector<std::string>> groups;
  for (const auto &[what, message] : map) {
    groups[message].push_back(name(what));
  }
  llvm::outs() << "\n" << title << "\n";
  for (const auto &[message, list] : groups) {
    llvm::outs() << "  " << message << "\n    " << llvm::join(list, ", ") << "\n";
  }
}

/// A message without the numbers and types of one example, so that equal reasons are listed once.
static std::string reasonOf(StringRef message) {
  StringRef reason = message.split("; ").first;
  return reason.split(", but got").first.str();
}

bool differential::checkMutants(const SuiteOptions &options) {
  auto known = [](auto mutants, StringRef name) {
    return name.empty() || llvm::any_of(mutants, [&](auto &mutant) { return mutant.name == name; });
  };
  auto names = [](auto mutants) { return llvm::join(llvm::map_range(mutants, [](auto &m) { return m.name; }), ", "); };
  if (!known(getKernelMutants(), options.kernelMutant)) {
    return usageError("expects --mutate-kernel to be one of " + names(getKernelMutants()) + ", but got " +
                      options.kernelMutant);
  }
  if (!known(getOracleMutants(), options.oracleMutant)) {
    return usageError("expects --mutate-oracle to be one of " + names(getOracleMutants()) + ", but got " +
                      options.oracleMutant);
  }
  return true;
}

bool differential::runSuite(const SuiteOptions &options) {
  if (options.list) {
    for (const Axis &axis : getAxes()) {
      llvm::outs() << llvm::formatv("{0,-12} {1}\n", axis.name, llvm::join(axis.values, " "));
    }
    return true;
  }
  llvm::Expected<CaseId> filter = parseCase(options.filter);
  if (!filter) {
    return usageError(llvm::toString(filter.takeError()));
  }
  if (!checkMutants(options)) {
    return false;
  }
  const double begin = now();
  Report report(options);
  auto start = [&] { return startWorker(options); };

  // The verifier decides what is legal. Modules are small; one context serves all of them.
  Compiler compiler;
  std::map<Config, std::string> verified;
  Verifier verifier = [&](const Config &config) -> std::string {
    auto [entry, isNew] = verified.try_emplace(config);
    if (isNew) {
      compiler.take();
      entry->second = refusalOf(compiler, Module(config), targetOf(options));
    }
    return entry->second;
  };

  // Values that alone are refused or have no lowering yet are left out, and listed.
  std::set<AxisValue> excluded;
  std::map<AxisValue, std::string> reasons;
  std::vector<AxisValue> pinned;
  llvm::SmallVector<StringRef> wanted;
  StringRef(options.filter).split(wanted, ',', -1, /*KeepEmpty=*/false);
  for (uint8_t axis = 0; axis < kernelAxes; ++axis) {
    if (llvm::none_of(wanted, [&](StringRef part) { return part.split('=').first == getAxes()[axis].name; })) {
      continue;
    }
    for (uint8_t value = 0; value < getAxes()[axis].values.size(); ++value) {
      if (filter->config.values[axis] == value) {
        pinned.push_back({axis, value});
      } else {
        excluded.insert({axis, value});
      }
    }
  }
  for (uint8_t axis = 0; axis < kernelAxes; ++axis) {
    for (uint8_t value = 0; value < getAxes()[axis].values.size(); ++value) {
      std::string message;
      std::vector<AxisValue> values = pinned;
      values.push_back({axis, value});
      if (!excluded.contains({axis, value}) && !complete(values, verifier, message)) {
        excluded.insert({axis, value});
        reasons[{axis, value}] = message;
        report.skips += isMissingLowering(message);
      }
    }
  }
  printGrouped("values without a lowering, or not legal at all", reasons, [](const AxisValue &v) { return v.str(); });

  // Kernels and their runs.
  const bool records = !options.recordFolder.empty(), isPart = records || !options.filter.empty();
  Covering covering = cover(verifier, excluded, options.kernels, isPart, options.seed);
  llvm::outs() << llvm::formatv("\n{0} kernels chosen ({1:f1} s)\n", covering.configs.size(), now() - begin);
  llvm::outs().flush();
  std::map<Pair, std::string> refusals, gaps;
  for (const auto &[pair, message] : covering.refused) {
    (isMissingLowering(message) ? gaps : refusals)[pair] = reasonOf(message);
  }
  report.skips += gaps.size();
  // Every kernel runs with every shape on finite inputs, then with inputs of every other kind.
  const int64_t shapes = getAxes()[AxisShape].values.size(), garbages = getAxes()[AxisGarbage].values.size();
  const int64_t spoiled = getAxes()[AxisInputs].values.size() - 1, round = shapes + spoiled;
  const int64_t each =
      records ? 1
              : std::max<int64_t>(round, llvm::divideCeil(options.runs, std::max<size_t>(covering.configs.size(), 1)));
  std::vector<std::vector<CaseId>> cases;
  std::vector<std::string> jobs;
  for (auto [number, config] : llvm::enumerate(covering.configs)) {
    cases.emplace_back();
    std::string job = "run";
    for (int64_t i = 0; i < each; ++i) {
      // Kernels that make one run take turns.
      const int64_t turn = (records ? number : i) % round;
      CaseId id{config, {}, options.seed * 1000003 + number * each + i};
      id.number(AxisShape) = (turn < shapes ? turn : turn + number) % shapes;
      id.number(AxisGarbage) = (i + number + i / round) % garbages;
      id.number(AxisInputs) = turn < shapes ? 0 : 1 + turn - shapes;
      cases.back().push_back(id);
      job += "\t" + id.str();
    }
    jobs.push_back(job);
  }

  // Answers of the workers.
  std::vector<std::vector<bool>> answered;
  for (const auto &list : cases) {
    answered.emplace_back(list.size());
  }
  std::vector<std::optional<size_t>> running(cases.size());
  std::vector<Outcome> outcomes(cases.size(), Outcome::Failed);
  std::map<Config, std::string> tooLarge;
  size_t done = 0;
  auto onAnswer = [&](size_t job, const std::string &line) {
    llvm::SmallVector<StringRef> parts;
    StringRef(line).split(parts, '\t', 2);
    int64_t number = 0;
    if (parts[0] == "outcome") {
      parts[1].getAsInteger(10, number);
      outcomes[job] = Outcome(number);
      if (outcomes[job] != Outcome::Ready && isTooLarge(parts[2])) {
        tooLarge[cases[job][0].config] = reasonOf(parts[2]);
        ++report.skips;
      } else if (outcomes[job] != Outcome::Ready) {
        report.failed(cases[job][0], "does not compile: " + parts[2].str());
        report.failures += cases[job].size() - 1;
      }
    } else if (parts[0] == "begin") {
      parts[1].getAsInteger(10, number);
      running[job] = number;
    } else if (parts[0] == "case") {
      parts[1].getAsInteger(10, number);
      answered[job][number] = true;
      running[job].reset();
      if (parts[2].empty()) {
        report.passed(cases[job][number]);
      } else {
        report.failed(cases[job][number], parts[2]);
      }
    } else if (parts[0] == "errors") {
      llvm::SmallVector<StringRef> numbers;
      StringRef(line).split(numbers, '\t');
      size_t row = 0;
      Errors worst;
      numbers[1].getAsInteger(10, row);
      numbers[2].getAsDouble(worst.peak);
      numbers[3].getAsDouble(worst.rms);
      numbers[4].getAsInteger(10, worst.elements);
      report.errors[row].merge(worst);
    } else {
      double seconds = 0;
      parts[1].getAsDouble(seconds);
      (parts[0] == "compiled" ? report.compileSeconds : report.runSeconds)[job] = seconds;
    }
  };
  auto onEnd = [&](size_t job, const std::string &death) {
    progress(++done, jobs.size(), "kernels");
    if (options.verbose) {
      llvm::outs() << llvm::formatv("{0}/{1} {2:f1} s compiling, {3:f1} s running: {4}\n", done, jobs.size(),
                                    report.compileSeconds[job], report.runSeconds[job], nameOf(covering.configs[job]));
      llvm::outs().flush();
    }
    if (death.empty()) {
      return;
    }
    if (!running[job] && outcomes[job] != Outcome::Ready) {
      report.failed(cases[job][0], "the compiler " + death);
      report.failures += cases[job].size() - 1;
      return;
    }
    for (auto [number, id] : llvm::enumerate(cases[job])) {
      if (!answered[job][number]) {
        report.failed(id, running[job] == number ? "the process " + death : "not run: the process ended before");
      }
    }
  };
  runJobs(jobs, options.jobs, start, {onAnswer, onEnd});

  auto pairName = [](const Pair &p) { return p.first.str() + " x " + p.second.str(); };
  printGrouped("kernels that do not fit the target (each counts as skipped)", tooLarge,
               [](const Config &config) { return nameOf(config); });
  printGrouped("pairs without a lowering (each counts as skipped)", gaps, pairName);
  printGrouped("pairs that the verifier refuses", refusals, pairName);
  std::vector<Pair> missing = report.printPairs(excluded, covering.refused);
  const size_t compiled = llvm::count(outcomes, Outcome::Ready);
  if (!isPart) {
    // Of runs that fail some pairs are missing.
    if (!missing.empty() && !report.failures) {
      report.error("expects all legal pairs to be met, but " + std::to_string(missing.size()) + " are not");
    }
    for (const Pair &pair : llvm::ArrayRef(missing).take_front(40)) {
      llvm::outs() << "  not met: " << pair.first.str() << " x " << pair.second.str() << "\n";
    }
    if (int64_t(compiled) < options.kernels) {
      report.error("expects at least " + std::to_string(options.kernels) + " kernels, but got " +
                   std::to_string(compiled));
    }
    if (report.passes + report.failures < options.runs) {
      report.error("expects at least " + std::to_string(options.runs) + " runs, but got " +
                   std::to_string(report.passes + report.failures));
    }
  }
  report.printErrors();
  report.printTimes("compiling", report.compileSeconds, covering.configs);
  report.printTimes("running", report.runSeconds, covering.configs);
  llvm::outs() << llvm::formatv("\n{0} kernels, {1} runs, {2:f1} s by the clock\n", compiled,
                                report.passes + report.failures, now() - begin)
               << llvm::formatv("{0} passed, {1} failed, {2} skipped\n", report.passes, report.failures, report.skips);
  return report.failures == 0;
}

bool differential::runCase(const SuiteOptions &options) {
  llvm::Expected<CaseId> id = parseCase(options.caseName);
  if (!id) {
    return usageError(llvm::toString(id.takeError()));
  }
  if (!checkMutants(options)) {
    return false;
  }
  Bench bench(options);
  std::unique_ptr<Kernel> kernel = bench.compile(id->config);
  llvm::outs() << kernel->module.text();
  if (kernel->outcome != Outcome::Ready) {
    llvm::outs() << "FAIL does not compile: " << kernel->message << "\n";
    return false;
  }
  if (!options.assemblyFile.empty()) {
    llvm::FailureOr<std::string> assembly = bench.assemblyOf(*kernel);
    if (failed(assembly)) {
      return usageError("there is no assembly: " + bench.compiler.take());
    }
    std::error_code problem;
    llvm::raw_fd_ostream os(options.assemblyFile, problem);
    os << *assembly;
    os.close();
    if (problem || os.has_error()) {
      return usageError("cannot write '" + options.assemblyFile + "': " + (problem ? problem : os.error()).message());
    }
  }
  ErrorTable errors;
  std::optional<Session> session;
  const std::string failure = bench.run(*kernel, *id, true, &errors, &session);
  for (const auto &[row, worst] : errors) {
    llvm::outs() << llvm::formatv("{0} {1}: {2:e2} peak, {3:e2} rms over {4} numbers\n", row->result, row->storage,
                                  worst.peak, worst.rms, worst.elements);
  }
  if (!options.writeFolder.empty() && session) {
    if (llvm::Error error = writeCase(*kernel, *session, *id, options.writeFolder, Report(options).mutantOptions())) {
      return usageError(llvm::toString(std::move(error)));
    }
  }
  llvm::outs() << (failure.empty() ? "PASS" : "FAIL " + failure) << "\n";
  return failure.empty();
}

bool differential::runAssemblies(const SuiteOptions &options) {
  // Many texts of one kernel: those that never end must not take long.
  constexpr int secondsOfText = 20;
  std::vector<CaseId> ids;
  llvm::SmallVector<StringRef> names;
  StringRef(options.caseName).split(names, ';', -1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    llvm::Expected<CaseId> id = parseCase(name);
    if (!id) {
      return usageError(llvm::toString(id.takeError()));
    }
    if (!ids.empty() && id->config.values != ids[0].config.values) {
      return usageError("expects cases of one kernel, but got " + nameOf(ids[0].config) + " and " + nameOf(id->config));
    }
    ids.push_back(*id);
  }
  std::error_code problem;
  std::vector<std::string> jobs;
  for (llvm::sys::fs::directory_iterator file(options.assemblyFolder, problem), end; file != end && !problem;
       file.increment(problem)) {
    jobs.push_back(file->path());
  }
  if (problem) {
    return usageError("cannot read the folder '" + options.assemblyFolder + "': " + problem.message());
  }
  llvm::sort(jobs);
  auto start = [&]() -> Work {
    auto bench = std::make_shared<Bench>(options);
    limitTime();
    std::shared_ptr<Kernel> kernel = bench->compile(ids[0].config);
    return [bench, kernel, &ids](const std::string &path, const std::function<void(const std::string &)> &answer) {
      limitTime();
      // A kernel that failed can stay with the devices of a process.
      std::string death;
      const std::string result = answerOfChild(
          [&]() -> std::string {
            limitTime(secondsOfText);
            llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text = llvm::MemoryBuffer::getFile(path);
            if (kernel->outcome != Outcome::Ready || !text ||
                !bench->replaceAssembly(*kernel, (*text)->getBuffer().str())) {
              return "cannot be run: " + (text ? oneLine(kernel->message) : text.getError().message());
            }
            uint64_t hash = 0;
            for (const CaseId &id : ids) {
              const std::string failure = bench->run(*kernel, id, /*repeat=*/false, nullptr);
              if (!failure.empty()) {
                return "FAIL " + oneLine(failure);
              }
              hash = hash * 0x9e3779b97f4a7c15 + bench->hash;
            }
            return "PASS " + llvm::utohexstr(hash);
          },
          death);
      answer(death.empty() ? result : "FAIL the process " + death);
    };
  };
  bool all = true;
  auto print = [&](size_t job, const std::string &line) {
    all &= !StringRef(line).starts_with("cannot");
    llvm::outs() << llvm::sys::path::filename(jobs[job]) << "\t" << line << "\n";
    llvm::outs().flush();
  };
  runJobs(jobs, options.jobs, start, {print, [&](size_t job, const std::string &death) {
                                        if (!death.empty()) {
                                          print(job, "FAIL the process " + death);
                                        }
                                      }});
  return all;
}

//===- Launch.cpp - Runs kernels ------------------------------------------===//
#include "ptx/Barrier.h"
#include "ptx/Machine.h"

#include <algorithm>
#include <bit>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

namespace {

/// Shared memory that a CTA can have at most, on any chip.
constexpr uint32_t sharedLimit = 232448;
constexpr uint32_t clusterLimit = 16;
/// Instructions of a cluster after which another one is started beside it, where CTAs may wait for each other.
constexpr uint64_t orderedBudget = 1 << 20;

Dim3 divide(Dim3 a, Dim3 b) { return {a.x / b.x, a.y / b.y, a.z / b.z}; }

class Runner {
public:
  Runner(const Program &program, const LaunchConfig &config, GlobalMemory &memory, const LaunchOptions &options)
      : program(program), config(config), options(options), clusters(divide(config.grid, config.cluster)),
        queue(clusters.count()) {
    launch.program = &program;
    launch.config = &config;
    launch.options = &options;
    launch.memory = &memory;
  }

  LaunchResult run() {
    std::vector<Worker> workers =
        makeWorkers<Worker>(options, program.ordered ? 1 : clusters.count(), program.code.size());
    for (Worker &worker : workers) {
      worker.launch = &launch;
    }
    runOnThreads(workers, [this](Worker &worker) { program.ordered ? runOrdered(worker) : runSome(worker); });
    queue.throwFault();
    return resultOf(workers);
  }

private:
  uint64_t idOf(uint64_t n) const { return options.reverseOrder ? clusters.count() - 1 - n : n; }

  void runSome(Worker &worker) {
    std::unique_ptr<Cluster> cluster;
    while (std::optional<uint64_t> n = queue.take()) {
      try {
        start(cluster, worker, *n);
        while (!runCluster(*cluster, worker, ~uint64_t(0))) {
        }
      } catch (const Fault &fault) {
        queue.note(*n, fault);
        return;
      }
    }
  }

  /// One thread; clusters that do not end within their budget get company.
  void runOrdered(Worker &worker) {
    std::vector<std::pair<uint64_t, std::unique_ptr<Cluster>>> live;
    std::vector<std::unique_ptr<Cluster>> spare;
    uint64_t next = 0;
    try {
      while (next < clusters.count() || !live.empty()) {
        if (next < clusters.count() && live.size() < options.smCount * 2) {
          std::unique_ptr<Cluster> cluster;
          if (!spare.empty()) {
            cluster = std::move(spare.back());
            spare.pop_back();
          }
          start(cluster, worker, next);
          live.emplace_back(next++, std::move(cluster));
        }
        for (size_t i = 0; i < live.size();) {
          if (runCluster(*live[i].second, worker, orderedBudget)) {
            spare.push_back(std::move(live[i].second));
            live.erase(live.begin() + ptrdiff_t(i));
          } else {
            ++i;
          }
        }
      }
    } catch (const Fault &fault) {
      queue.note(0, fault);
    }
  }

  void start(std::unique_ptr<Cluster> &cluster, Worker &worker, uint64_t n) {
    const uint64_t id = idOf(n);
    if (!cluster) {
      cluster = std::make_unique<Cluster>();
      for (uint64_t i = 0; i < config.cluster.count(); ++i) {
        cluster->ctas.push_back(std::make_unique<Cta>());
      }
    }
    cluster->launch = &launch;
    cluster->id = id;
    cluster->reset();
    const auto cx = uint32_t(id % clusters.x), cy = uint32_t(id / clusters.x % clusters.y),
               cz = uint32_t(id / clusters.x / clusters.y);
    for (uint32_t rank = 0; rank < cluster->ctas.size(); ++rank) {
      Cta &cta = *cluster->ctas[rank];
      cta.cluster = cluster.get();
      cta.rank = rank;
      cta.x = cx * config.cluster.x + rank % config.cluster.x;
      cta.y = cy * config.cluster.y + rank / config.cluster.x % config.cluster.y;
      cta.z = cz * config.cluster.z + rank / config.cluster.x / config.cluster.y;
      startCta(cta, worker);
    }
    worker.random.seed(options.seed * 0x9e3779b97f4a7c15 + id);
  }

  void startCta(Cta &cta, Worker &worker) {
    cta.threads = uint32_t(config.block.count());
    cta.reset();
    const uint32_t shared = config.dynamicShared != 0
                                ? program.dynamicSharedBase - reservedShared + config.dynamicShared
                                : program.staticShared;
    cta.shared.reset(reservedShared, shared, options.checks);
    cta.shared.warn = [&worker, this, &cta](const std::string &text) {
      const Warp &warp = cta.warps[cta.running];
      worker.warnings.insert(fmt::format("{}: {}", describe(program, program.code[warp.pc]), text));
    };
    cta.warps.resize((cta.threads + laneCount - 1) / laneCount);
    for (uint32_t i = 0; i < cta.warps.size(); ++i) {
      Warp &warp = cta.warps[i];
      std::vector<uint8_t> registers = std::move(warp.registers), local = std::move(warp.local);
      warp = Warp();
      warp.registers = std::move(registers);
      warp.local = std::move(local);
      // Nothing may depend on what registers and local memory hold at the start.
      warp.registers.assign(program.registerBytes + 64, 0xcb);
      warp.local.assign(size_t(program.localBytes) * laneCount, 0xa5);
      const auto start = reinterpret_cast<uintptr_t>(warp.registers.data());
      warp.base[0] = reinterpret_cast<uint8_t *>((start + 63) / 64 * 64);
      warp.base[1] = const_cast<uint8_t *>(program.constantData());
      warp.cta = &cta;
      warp.worker = &worker;
      warp.index = i;
      const uint32_t lanes = std::min(laneCount, cta.threads - i * laneCount);
      warp.alive = lanes == laneCount ? allLanes : (1u << lanes) - 1;
      warp.stack.push_back({program.entry, -1, warp.alive, false});
      if (program.hasWarpgroupProducts) {
        warp.accessed.assign(program.registerBytes / 64 + 2, 0);
      }
      warp.clocks.seen[i] = 1;
      warp.clocks.seen[warpAgents + i] = 1;
      fillSpecials(warp);
    }
  }

  void fillSpecials(Warp &warp) const {
    for (auto [special, place] : program.specials) {
      uint32_t *to = warp.lanes<uint32_t>(place);
      for (unsigned lane = 0; lane < laneCount; ++lane) {
        to[lane] = valueOf(special, warp, lane);
      }
    }
  }

  uint32_t valueOf(Special special, const Warp &warp, unsigned lane) const {
    const Cta &cta = *warp.cta;
    const uint32_t thread = warp.index * laneCount + lane;
    const Dim3 &block = config.block, &grid = config.grid, &group = config.cluster;
    switch (special) {
    case Special::TidX:
      return thread % block.x;
    case Special::TidY:
      return thread / block.x % block.y;
    case Special::TidZ:
      return thread / block.x / block.y;
    case Special::NtidX:
      return block.x;
    case Special::NtidY:
      return block.y;
    case Special::NtidZ:
      return block.z;
    case Special::CtaidX:
      return cta.x;
    case Special::CtaidY:
      return cta.y;
    case Special::CtaidZ:
      return cta.z;
    case Special::NctaidX:
      return grid.x;
    case Special::NctaidY:
      return grid.y;
    case Special::NctaidZ:
      return grid.z;
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return warp.index;
    case Special::NwarpId:
      return uint32_t(cta.warps.size());
    case Special::SmId:
      return uint32_t(cta.cluster->id % options.smCount);
    case Special::NsmId:
      return options.smCount;
    case Special::GridId:
      return 1;
    case Special::LanemaskEq:
      return 1u << lane;
    case Special::LanemaskLt:
      return (1u << lane) - 1;
    case Special::LanemaskLe:
      return (2u << lane) - 1;
    case Special::LanemaskGt:
      return ~((2u << lane) - 1);
    case Special::LanemaskGe:
      return ~((1u << lane) - 1);
    case Special::ClusterIdX:
      return cta.x / group.x;
    case Special::ClusterIdY:
      return cta.y / group.y;
    case Special::ClusterIdZ:
      return cta.z / group.z;
    case Special::NclusterIdX:
      return grid.x / group.x;
    case Special::NclusterIdY:
      return grid.y / group.y;
    case Special::NclusterIdZ:
      return grid.z / group.z;
    case Special::ClusterCtaidX:
      return cta.x % group.x;
    case Special::ClusterCtaidY:
      return cta.y % group.y;
    case Special::ClusterCtaidZ:
      return cta.z % group.z;
    case Special::ClusterNctaidX:
      return group.x;
    case Special::ClusterNctaidY:
      return group.y;
    case Special::ClusterNctaidZ:
      return group.z;
    case Special::ClusterCtaRank:
      return cta.rank;
    case Special::ClusterNctaRank:
      return uint32_t(group.count());
    case Special::IsExplicitCluster:
      return group.count() > 1 || program.kernel->clusterSize[0] != 0;
    case Special::DynamicSmemSize:
      return config.dynamicShared;
    case Special::TotalSmemSize:
      return program.dynamicSharedBase + config.dynamicShared;
    case Special::WarpSize:
      return laneCount;
    case Special::Count:
      break;
    }
    return 0;
  }

  /// True when all warps have ended; false when the budget is used up.
  bool runCluster(Cluster &cluster, Worker &worker, uint64_t budget) {
    const uint64_t begin = worker.executed;
    std::vector<Warp *> order;
    for (auto &cta : cluster.ctas) {
      for (Warp &warp : cta->warps) {
        if (!warp.done) {
          order.push_back(&warp);
        }
      }
    }
    while (!order.empty()) {
      if (options.seed != 0) {
        std::shuffle(order.begin(), order.end(), worker.random);
      }
      bool progress = false;
      for (Warp *warp : order) {
        const uint32_t slice = options.seed ? 1 + uint32_t(worker.random() % options.slice) : options.slice;
        warp->cta->running = warp->index;
        progress |= runWarp(*warp, slice);
        if (warp->done) {
          warpEnded(*warp);
        }
      }
      std::erase_if(order, [](const Warp *warp) { return warp->done; });
      if (!progress && !order.empty() && !wakeUp(cluster)) {
        fail(FaultKind::Deadlock, "{}", reportDeadlock(cluster));
      }
      if (options.instructionLimit != 0 && worker.executed > options.instructionLimit) {
        fail(FaultKind::Deadlock, "expects at most {} warp instructions, but the kernel goes on\n{}",
             options.instructionLimit, reportWarps(cluster));
      }
      if (worker.executed - begin > budget && !order.empty()) {
        return false;
      }
    }
    if (!cluster.bulk.empty()) {
      worker.warnings.insert(
          fmt::format("kernel {}: a CTA ends before all of its asynchronous copies into shared memory "
                      "were waited for",
                      program.name));
    }
    return true;
  }

  std::string reportDeadlock(const Cluster &cluster) const {
    return "deadlock: no warp can go on\n" + reportWarps(cluster);
  }

  std::string reportWarps(const Cluster &cluster) const {
    std::string text = fmt::format("  in kernel {}", program.name);
    for (const auto &cta : cluster.ctas) {
      for (const Warp &warp : cta->warps) {
        text += fmt::format("\n  CTA ({}, {}, {}) warp {}: ", cta->x, cta->y, cta->z, warp.index);
        if (warp.done) {
          text += "ended";
          continue;
        }
        text += fmt::format("lanes {:#010x} at {}", warp.alive, describe(program, program.code[warp.pc]));
        if (warp.blocked) {
          text += fmt::format(", waits for {} {}", warp.waitReason, warp.waitId);
        }
      }
    }
    return text;
  }

  const Program &program;
  const LaunchConfig &config;
  const LaunchOptions &options;
  Launch launch;
  Dim3 clusters;
  ItemQueue queue;
};

} // namespace

void kvc::sim::ptx::checkLaunch(const Program &program, const LaunchConfig &config) {
  const Dim3 &grid = config.grid, &block = config.block, &cluster = config.cluster;
  auto three = [](Dim3 d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); };
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
      block.count() > 1024) {
    fail(FaultKind::InvalidValue, "expects a block of 1 to 1024 threads, at most 64 along z, but got {}", three(block));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    fail(FaultKind::InvalidValue, "expects a grid of 1 to 2^31-1, 65535, 65535 blocks, but got {}", three(grid));
  }
  const auto &required = program.kernel->requiredThreads;
  if (required[0] != 0 && (block.x != required[0] || block.y != required[1] || block.z != required[2])) {
    fail(FaultKind::InvalidValue, "expects the block that .reqntid of {} asks for, ({}, {}, {}), but got {}",
         program.name, required[0], required[1], required[2], three(block));
  }
  const auto &most = program.kernel->maxThreads;
  if (most[0] != 0 && block.count() > uint64_t(most[0]) * most[1] * most[2]) {
    fail(FaultKind::InvalidValue, "expects at most the {} threads of .maxntid of {}, but got {}",
         uint64_t(most[0]) * most[1] * most[2], program.name, three(block));
  }
  if (cluster.count() == 0 || cluster.count() > clusterLimit || grid.x % cluster.x || grid.y % cluster.y ||
      grid.z % cluster.z) {
    fail(FaultKind::InvalidValue, "expects a cluster of 1 to {} CTAs that divides the grid, but got {} for {}",
         clusterLimit, three(cluster), three(grid));
  }
  const uint64_t shared = uint64_t(program.dynamicSharedBase) - reservedShared + config.dynamicShared;
  if (shared > sharedLimit) {
    fail(FaultKind::InvalidValue, "expects at most {} bytes of shared memory, but got {}", sharedLimit, shared);
  }
  if (config.parameters.size() != program.parameterBytes) {
    fail(FaultKind::InvalidValue, "expects {} bytes of parameters for {}, but got {}", program.parameterBytes,
         program.name, config.parameters.size());
  }
}

LaunchResult kvc::sim::ptx::runKernel(const Program &program, const LaunchConfig &config, GlobalMemory &memory,
                                      const LaunchOptions &options) {
  checkLaunch(program, config);
  return Runner(program, config, memory, options).run();
}

//===- Launch.cpp - Runs kernels ------------------------------------------===//
#include "amdgcn/Machine.h"

#include "amdgcn/Exec.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

namespace {

// Bits of COMPUTE_PGM_RSRC1 and 2 and of KERNEL_CODE_PROPERTIES, as LLVM's AMDGPU guide lists them.
constexpr unsigned roundModeShift = 12, denormModeShift = 16, halfOverflowShift = 26;
constexpr unsigned workgroupIdShift = 7, workgroupInfoShift = 10;
enum Property : uint16_t {
  PrivateSegmentBuffer = 1,
  DispatchPointer = 2,
  QueuePointer = 4,
  KernargPointer = 8,
  DispatchId = 16,
  FlatScratchInit = 32,
  PrivateSegmentSize = 64,
};

class Runner {
public:
  Runner(const Program &program, const LaunchConfig &config, GlobalMemory &memory, const LaunchOptions &options)
      : program(program), config(config), options(options), memory(memory), queue(config.grid.count()) {
    launch.program = &program;
    launch.config = &config;
    launch.options = &options;
    launch.memory = &memory;
    launch.ldsBytes = program.kernel->ldsBytes + config.dynamicShared;
  }
  ~Runner() {
    memory.free(launch.kernarg);
    memory.free(launch.dispatchPacket);
  }

  LaunchResult run() {
    makeArguments();
    std::vector<Worker> workers =
        makeWorkers<Worker>(options, program.ordered ? 1 : config.grid.count(), program.code.size());
    for (Worker &worker : workers) {
      worker.launch = &launch;
    }
    runOnThreads(workers, [this](Worker &worker) { runSome(worker); });
    queue.throwFault();
    return resultOf(workers);
  }

private:
  uint64_t idOf(uint64_t n) const { return options.reverseOrder ? config.grid.count() - 1 - n : n; }

  void runSome(Worker &worker) {
    Workgroup group;
    while (std::optional<uint64_t> n = queue.take()) {
      try {
        start(group, worker, idOf(*n));
        runGroup(group, worker);
      } catch (const Fault &fault) {
        queue.note(*n, fault);
        return;
      } catch (const std::exception &other) {
        queue.note(*n, Fault(FaultKind::Other, other.what()));
        return;
      }
    }
  }

  // Arguments ---------------------------------------------------------------------------------------------------------

  uint64_t hiddenValue(std::string_view kind) const {
    const Dim3 &grid = config.grid, &block = config.block;
    const std::pair<std::string_view, uint64_t> values[] = {
        {"hidden_block_count_x", grid.x},
        {"hidden_block_count_y", grid.y},
        {"hidden_block_count_z", grid.z},
        {"hidden_group_size_x", block.x},
        {"hidden_group_size_y", block.y},
        {"hidden_group_size_z", block.z},
        {"hidden_grid_dims", grid.z * block.z > 1   ? 3
                             : grid.y * block.y > 1 ? 2
                                                    : 1},
        {"hidden_dynamic_lds_size", config.dynamicShared},
        {"hidden_private_base", privateAperture >> 32},
        {"hidden_shared_base", ldsAperture >> 32},
    };
    for (const auto &[name, value] : values) {
      if (name == kind) {
        return value;
      }
    }
    // Remainders, offsets, and what the host's services would need.
    return 0;
  }

  void makeArguments() {
    const uint64_t bytes = std::max<uint64_t>(program.kernel->kernargBytes, 1);
    launch.kernarg = memory.allocate(bytes, "the arguments of " + program.name);
    uint8_t *block = memory.at(launch.kernarg, bytes, "arguments");
    std::memset(block, 0, bytes);
    std::copy(config.parameters.begin(), config.parameters.end(), block);
    for (const KernelArgument &argument : program.kernel->arguments) {
      if (argument.hidden()) {
        const uint64_t value = hiddenValue(argument.kind);
        std::memcpy(block + argument.offset, &value, std::min<uint32_t>(argument.bytes, 8));
      }
    }
    memory.find(launch.kernarg)->readOnly = true;
    // The packet that a queue of the HSA runtime would have.
    struct Packet {
      uint16_t header, setup, groupSize[3], reserved;
      uint32_t gridSize[3], privateBytes, groupBytes;
      uint64_t kernelObject, kernarg, reserved2, completion;
    } packet{};
    static_assert(sizeof(Packet) == 64);
    packet.setup = uint16_t(hiddenValue("hidden_grid_dims"));
    const uint32_t blocks[3] = {config.block.x, config.block.y, config.block.z};
    const uint32_t grids[3] = {config.grid.x, config.grid.y, config.grid.z};
    for (unsigned i = 0; i < 3; ++i) {
      packet.groupSize[i] = uint16_t(blocks[i]);
      packet.gridSize[i] = blocks[i] * grids[i];
    }
    packet.privateBytes = program.kernel->privateBytes;
    packet.groupBytes = launch.ldsBytes;
    packet.kernarg = launch.kernarg;
    launch.dispatchPacket = memory.allocate(sizeof(packet), "the dispatch packet");
    std::memcpy(memory.at(launch.dispatchPacket, sizeof(packet), "packet"), &packet, sizeof(packet));
    memory.find(launch.dispatchPacket)->readOnly = true;
  }

  // Start of a work-group ---------------------------------------------------------------------------------------------

  void start(Workgroup &group, Worker &worker, uint64_t id) {
    const Dim3 &grid = config.grid;
    group.launch = &launch;
    group.id = id;
    group.x = uint32_t(id % grid.x);
    group.y = uint32_t(id / grid.x % grid.y);
    group.z = uint32_t(id / grid.x / grid.y);
    group.threads = uint32_t(config.block.count());
    group.arrived = 0;
    group.phase = 0;
    group.arriving = {};
    group.completed = {};
    group.lds.reset(0, launch.ldsBytes, options.checks);
    const unsigned lanes = program.waveSize;
    const uint32_t waves = (group.threads + lanes - 1) / lanes;
    while (group.waves.size() < waves) {
      group.waves.push_back(std::make_unique<Wave>());
    }
    worker.random.seed(options.seed * 0x9e3779b97f4a7c15 + id);
    for (uint32_t i = 0; i < waves; ++i) {
      startWave(group, worker, i);
    }
  }

  void startWave(Workgroup &group, Worker &worker, uint32_t index) {
    Wave &wave = *group.waves[index];
    wave.group = &group;
    wave.worker = &worker;
    wave.index = index;
    wave.lanes = program.waveSize;
    wave.blocked = wave.done = false;
    wave.barrierSignalled = false;
    wave.executed = 0;
    wave.waits.reset();
    wave.hazards.reset();
    wave.clocks = {};
    wave.clocks.seen[index] = 1;
    wave.ldsLoadClock = 0;
    wave.ldsPending.clear();
    wave.ldsLoads.clear();
    // Nothing may depend on what registers and private memory hold at the start.
    wave.registers.assign(512 * rowLanes + 16, 0xcbcbcbcb);
    wave.privateMemory.assign(size_t(program.kernel->privateBytes) * wave.lanes, 0xa5);
    const auto begin = reinterpret_cast<uintptr_t>(wave.registers.data());
    wave.v = reinterpret_cast<uint32_t *>((begin + 63) / 64 * 64);
    wave.s.fill(0xcbcbcbcb);
    wave.s[sreg::Null] = 0;
    wave.s[sreg::Scc] = 0;
    wave.laneMask = wave.lanes == 64 ? ~uint64_t(0) : 0xffffffff;
    const uint32_t live = std::min(wave.lanes, group.threads - index * wave.lanes);
    wave.setExec(live == 64 ? ~uint64_t(0) : (uint64_t(1) << live) - 1);
    fillScalars(group, wave);
    fillWorkitems(wave);
  }

  void fillScalars(const Workgroup &group, Wave &wave) {
    const KernelInfo &kernel = *program.kernel;
    unsigned next = 0;
    auto put = [&](uint64_t value, unsigned dwords) {
      for (unsigned i = 0; i < dwords; ++i) {
        wave.s[next++] = uint32_t(i < 2 ? value >> (32 * i) : 0);
      }
    };
    if (kernel.properties & PrivateSegmentBuffer) {
      // Marked as swizzled: such buffers are the lanes' private memory.
      put(uint64_t(1) << 63, 2);
      put(kernel.privateBytes, 2);
    }
    if (kernel.properties & DispatchPointer) {
      put(launch.dispatchPacket, 2);
    }
    if (kernel.properties & QueuePointer) {
      put(0, 2);
    }
    if (kernel.properties & KernargPointer) {
      put(launch.kernarg, 2);
    }
    if (kernel.properties & DispatchId) {
      put(1, 2);
    }
    if (kernel.properties & FlatScratchInit) {
      put(0, 2);
    }
    if (kernel.properties & PrivateSegmentSize) {
      put(kernel.privateBytes, 1);
    }
    int32_t entry = 0;
    if (const unsigned length = kernel.preload & 0x7f; length != 0) {
      const unsigned offset = kernel.preload >> 7;
      const uint64_t bytes = uint64_t(length + offset) * 4;
      const uint8_t *block = memory.at(launch.kernarg, bytes, "preloaded arguments") + size_t(offset) * 4;
      std::memcpy(&wave.s[next], block, size_t(length) * 4);
      next += length;
      // Such kernels begin with 256 bytes for hardware that does not preload.
      entry = program.indexOf(kernel.entry + 256);
      if (entry < 0) {
        fail(FaultKind::Unsupported, "{}: expects an instruction behind the code for hardware without preload",
             program.name);
      }
    }
    next = kernel.rsrc2 >> 1 & 31;
    const bool has[3] = {(kernel.rsrc2 >> workgroupIdShift & 1) != 0, (kernel.rsrc2 >> (workgroupIdShift + 1) & 1) != 0,
                         (kernel.rsrc2 >> (workgroupIdShift + 2) & 1) != 0};
    const uint32_t ids[3] = {group.x, group.y, group.z};
    if (program.chip->family == Family::Rdna4) {
      // The wave's number is in bits 25 to 29.
      wave.s[sreg::Ttmp + 8] = wave.index << 25;
      wave.s[sreg::Ttmp + 9] = group.x;
      wave.s[sreg::Ttmp + 7] = (group.y & 0xffff) | (group.z << 16);
    } else {
      for (unsigned i = 0; i < 3; ++i) {
        if (has[i]) {
          put(ids[i], 1);
        }
      }
      if (kernel.rsrc2 >> workgroupInfoShift & 1) {
        put(0, 1);
      }
      if (kernel.rsrc2 & 1) {
        put(0, 1);
      }
    }
    wave.pc = entry;
  }

  /// All of these chips pack the three numbers of a work-item into v0.
  void fillWorkitems(Wave &wave) {
    const Dim3 &block = config.block;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const uint32_t thread = wave.index * wave.lanes + lane;
      const uint32_t x = thread % block.x, y = thread / block.x % block.y, z = thread / block.x / block.y;
      wave.v[lane] = x | (y << 10) | (z << 20);
    }
  }

  // Run ---------------------------------------------------------------------------------------------------------------

  /// Runs a wave for a slice, or until it blocks or ends. True when it executed something.
  bool runWave(Wave &wave, uint32_t slice) {
    if (wave.blocked) {
      return false;
    }
    Worker &worker = *wave.worker;
    const Inst *code = program.code.data();
    const bool checkHazards = program.chip->cdna() || program.chip->family == Family::Rdna3;
    const auto size = int32_t(program.code.size());
    uint32_t n = 0;
    if (wave.pc >= size) {
      fail(FaultKind::Trap, "kernel {}: expects s_endpgm before the end of the code", program.name);
    }
    try {
      for (; n < slice && !wave.done; ++n) {
        const Inst &inst = code[wave.pc];
        if (wave.waits.pending()) {
          checkRegisters(wave, inst);
        }
        if (checkHazards) {
          wave.hazards.step(program, inst);
        }
        wave.next = wave.pc + 1;
        const uint64_t exec = wave.exec();
        inst.exec(wave, inst);
        if (wave.blocked) {
          break;
        }
        InstCounters &counters = worker.counters[inst.index];
        ++counters.issued;
        counters.lanes += unsigned(std::popcount(exec));
        ++wave.executed;
        wave.pc = wave.next;
        if (wave.pc >= size && !wave.done) {
          fail(FaultKind::Trap, "expects s_endpgm before the end of the code");
        }
      }
    } catch (const Fault &fault) {
      const Workgroup &group = *wave.group;
      fail(fault.kind, "{}: {}\n  in kernel {}, work-group ({}, {}, {}), wave {}",
           describe(program, uint32_t(std::min(wave.pc, size - 1))), fault.what(), program.name, group.x, group.y,
           group.z, wave.index);
    }
    worker.executed += n;
    return n != 0;
  }

  void checkRegisters(Wave &wave, const Inst &inst) {
    for (const RegisterRange &range : inst.reads) {
      wave.waits.check(program, inst, range, false, Counter::Count);
    }
    Counter by = Counter::Count;
    switch (inst.kind) {
    case Class::Load:
    case Class::Atomic:
    case Class::ScalarLoad:
    case Class::LdsRead:
    case Class::LdsAtomic:
      by = counterOf(*program.chip, inst.kind);
      break;
    default:
      break;
    }
    for (const RegisterRange &range : inst.writes) {
      wave.waits.check(program, inst, range, true, by);
    }
  }

  void runGroup(Workgroup &group, Worker &worker) {
    const uint32_t waves = (group.threads + program.waveSize - 1) / program.waveSize;
    std::vector<Wave *> order;
    for (uint32_t i = 0; i < waves; ++i) {
      order.push_back(group.waves[options.reverseOrder ? waves - 1 - i : i].get());
    }
    while (!order.empty()) {
      if (options.seed != 0) {
        std::shuffle(order.begin(), order.end(), worker.random);
      }
      bool progress = false;
      for (Wave *wave : order) {
        const uint32_t slice = options.seed ? 1 + uint32_t(worker.random() % options.slice) : options.slice;
        group.running = wave->index;
        progress |= runWave(*wave, slice);
        if (wave->done) {
          waveEnded(*wave);
        }
      }
      std::erase_if(order, [](const Wave *wave) { return wave->done; });
      if (!progress && !order.empty()) {
        fail(FaultKind::Deadlock, "deadlock: no wave can go on\n{}", reportWaves(group, waves));
      }
      if (options.instructionLimit != 0 && worker.executed > options.instructionLimit) {
        fail(FaultKind::Deadlock, "expects at most {} wave instructions, but the kernel goes on\n{}",
             options.instructionLimit, reportWaves(group, waves));
      }
    }
  }

  std::string reportWaves(const Workgroup &group, uint32_t waves) const {
    std::string text = fmt::format("  in kernel {}", program.name);
    for (uint32_t i = 0; i < waves; ++i) {
      const Wave &wave = *group.waves[i];
      text += fmt::format("\n  work-group ({}, {}, {}) wave {}: ", group.x, group.y, group.z, i);
      text += wave.done ? std::string("ended")
                        : fmt::format("lanes {:#x} at {}{}", wave.exec(), describe(program, uint32_t(wave.pc)),
                                      wave.blocked ? std::string(", waits for ") + wave.waitReason : std::string());
    }
    return text;
  }

  const Program &program;
  const LaunchConfig &config;
  const LaunchOptions &options;
  GlobalMemory &memory;
  Launch launch;
  ItemQueue queue;
};

uint32_t liveWaves(const Workgroup &group) {
  const uint32_t lanes = group.launch->program->waveSize, waves = (group.threads + lanes - 1) / lanes;
  uint32_t live = 0;
  for (uint32_t i = 0; i < waves; ++i) {
    live += !group.waves[i]->done;
  }
  return live;
}

void endPhase(Workgroup &group) {
  group.completed = group.arriving;
  group.arriving = {};
  group.arrived = 0;
  ++group.phase;
  for (auto &wave : group.waves) {
    wave->blocked = false;
  }
}

} // namespace

void kvc::sim::amdgcn::arriveAtBarrier(Wave &wave) {
  Workgroup &group = *wave.group;
  Clocks known = wave.clocks;
  known.seen[wave.index] = wave.knownPhase();
  // What follows is not covered by what is handed on.
  ++wave.clocks.seen[wave.index];
  group.arriving.join(known);
  if (++group.arrived == liveWaves(group)) {
    endPhase(group);
  }
}

/// A wave that has ended is no longer waited for.
void kvc::sim::amdgcn::waveEnded(Wave &wave) {
  Workgroup &group = *wave.group;
  if (group.arrived != 0 && group.arrived == liveWaves(group)) {
    endPhase(group);
  }
}

void kvc::sim::amdgcn::checkLaunch(const Program &program, const LaunchConfig &config) {
  const KernelInfo &kernel = *program.kernel;
  const Dim3 &grid = config.grid, &block = config.block;
  auto three = [](Dim3 d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); };
  if (block.count() == 0 || block.count() > 1024 || block.x > 1024 || block.y > 1024 || block.z > 1024) {
    fail(FaultKind::InvalidValue, "expects a block of 1 to 1024 threads, but got {}", three(block));
  }
  if (grid.count() == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    fail(FaultKind::InvalidValue, "expects a grid of 1 to 2^31-1, 65535, 65535 blocks, but got {}", three(grid));
  }
  const uint32_t *required = kernel.requiredBlock;
  if (required[0] != 0 && (block.x != required[0] || block.y != required[1] || block.z != required[2])) {
    fail(FaultKind::InvalidValue, "expects the block that {} requires, ({}, {}, {}), but got {}", program.name,
         required[0], required[1], required[2], three(block));
  }
  if (block.count() > kernel.maxThreads) {
    fail(FaultKind::InvalidValue, "expects at most the {} threads that {} was compiled for, but got {}",
         kernel.maxThreads, program.name, three(block));
  }
  if (config.cluster.count() != 1) {
    fail(FaultKind::Unsupported, "expects no clusters on {}, but got {}", program.chip->target, three(config.cluster));
  }
  const uint64_t lds = uint64_t(kernel.ldsBytes) + config.dynamicShared;
  if (lds > program.chip->ldsBytes) {
    fail(FaultKind::InvalidValue, "expects at most {} bytes of LDS on {}, but got {}", program.chip->ldsBytes,
         program.chip->target, lds);
  }
  uint32_t explicitBytes = 0;
  for (const KernelArgument *argument : kernel.explicitArguments()) {
    explicitBytes = std::max(explicitBytes, argument->offset + argument->bytes);
  }
  if (config.parameters.size() > kernel.kernargBytes || config.parameters.size() < explicitBytes) {
    fail(FaultKind::InvalidValue, "expects {} bytes of arguments for {}, but got {}", explicitBytes, program.name,
         config.parameters.size());
  }
  if ((kernel.rsrc1 >> roundModeShift & 15) != 0 || (kernel.rsrc1 >> denormModeShift & 15) != 15) {
    fail(FaultKind::Unsupported,
         "expects a kernel that rounds to nearest and keeps denormals, but got {} with mode {:#x}", program.name,
         kernel.rsrc1 >> roundModeShift & 255);
  }
  if (kernel.rsrc1 >> halfOverflowShift & 1) {
    fail(FaultKind::Unsupported,
         "expects a kernel whose conversions give infinity for what is too large (no FP16_OVFL), but got {}",
         program.name);
  }
  if (kernel.waveSize != 64 && (kernel.waveSize != 32 || program.chip->cdna())) {
    fail(FaultKind::Unsupported, "expects waves that {} has, but got {} lanes", program.chip->target, kernel.waveSize);
  }
  if (kernel.dynamicStack) {
    fail(FaultKind::Unsupported, "expects a kernel whose stack has a known size, but got {}", program.name);
  }
}

LaunchResult kvc::sim::amdgcn::runKernel(const Program &program, const LaunchConfig &config, GlobalMemory &memory,
                                         const LaunchOptions &options) {
  checkLaunch(program, config);
  return Runner(program, config, memory, options).run();
}

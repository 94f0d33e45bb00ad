//===- SharedMemory.cpp - Shared memory with its checks -------------------===//
#include "common/SharedMemory.h"

#include "common/Fault.h"

#include <cstring>

using namespace kvc::sim;

// A reader set's index, or one reader: agent above the clock.
static constexpr uint32_t setBit = 0x80000000;
static constexpr unsigned clockBits = 25;
static constexpr uint32_t clockMask = (1u << clockBits) - 1;
/// Sets beyond this are collected.
static constexpr size_t setLimit = 1 << 14;

std::string kvc::sim::describeAgent(unsigned agent, unsigned lane) {
  return agent < warpAgents ? fmt::format("warp {} lane {}", agent, lane)
                            : fmt::format("an asynchronous operation of warp {} lane {}", agent - warpAgents, lane);
}

void SharedMemory::reset(uint32_t reserved, uint32_t size, SharedChecks wanted) {
  checks = wanted;
  reservedBytes = reserved;
  // Nothing may depend on what shared memory holds at the start.
  bytes.assign(reserved + size, 0xa5);
  if (checks.races || checks.uninitialised) {
    writes.assign(bytes.size(), {});
    reads.assign(bytes.size(), 0);
    readerSets.clear();
    transitions.clear();
  }
}

void SharedMemory::checkBounds(uint32_t address, uint32_t size) const {
  if (address < reservedBytes || size > bytes.size() || address > bytes.size() - size) {
    fail(FaultKind::IllegalAddress, "expects an access to the {} bytes of shared memory, but got {} bytes at offset {}",
         bytes.size() - reservedBytes, size, int64_t(address) - reservedBytes);
  }
}

void SharedMemory::race(const char *what, uint32_t address, unsigned agent, unsigned lane, const Accessor &by) const {
  fail(FaultKind::Race, "race in shared memory at offset {}: {} by {}, not ordered with the access of {}",
       address - reservedBytes, what, describeAgent(agent, lane), describeAgent(by.agent, by.lane));
}

void SharedMemory::noteRead(uint32_t address, uint32_t size, const Accessor &by) {
  for (uint32_t i = address; i < address + size;) {
    const Write last = writes[i];
    const uint32_t before = reads[i];
    uint32_t j = i + 1;
    while (j < address + size && writes[j] == last && reads[j] == before) {
      ++j;
    }
    if (last.pending) {
      fail(FaultKind::Race, "expects a wait for the asynchronous copy of {} before offset {} of shared memory is read",
           describeAgent(last.agent, last.lane), i - reservedBytes);
    }
    if (!last.valid) {
      if (checks.uninitialised) {
        fail(FaultKind::Race,
             "expects shared memory that was written, but got a read of offset {} ({} bytes) that was not",
             i - reservedBytes, size);
      }
    } else if (checks.races) {
      if (last.agent != by.agent) {
        if (last.clock > by.clocks->seen[last.agent] && !(last.atomic && by.atomic)) {
          race("it was written", i, last.agent, last.lane, by);
        }
      } else if (last.lane != by.lane && last.clock == by.clocks->seen[by.agent] && !last.atomic && warn) {
        warn("lanes of a warp exchange data through shared memory without a warp barrier");
      }
      if (by.asyncProxy && !last.asyncProxy && last.clock > by.clocks->fenced[last.agent]) {
        fail(FaultKind::Race,
             "expects fence.proxy.async between the store of {} to offset {} of shared memory and its use by an "
             "asynchronous operation",
             describeAgent(last.agent, last.lane), i - reservedBytes);
      }
    }
    if (checks.races) {
      const uint32_t after = afterRead(before, by);
      for (uint32_t k = i; k < j; ++k) {
        reads[k] = after;
      }
    }
    i = j;
  }
}

uint32_t SharedMemory::afterRead(uint32_t before, const Accessor &by) {
  const uint32_t clock = by.clocks->seen[by.agent];
  if (clock > clockMask) {
    fail(FaultKind::Other, "expects fewer than {} barriers in a CTA for the race check", clockMask);
  }
  const uint32_t single = (by.agent << clockBits) | clock;
  if (before == 0 || before == single) {
    return single;
  }
  if (!(before & setBit)) {
    const unsigned agent = before >> clockBits;
    // The earlier read came before this one: whoever is ordered after this one is ordered after both.
    if (agent == by.agent || (before & clockMask) <= by.clocks->seen[agent]) {
      return single;
    }
  } else if (readerSets[before & ~setBit][by.agent] == clock) {
    return before;
  }
  const uint64_t key = (uint64_t(before) << 32) | single;
  if (auto found = transitions.find(key); found != transitions.end()) {
    return found->second;
  }
  if (readerSets.size() >= setLimit) {
    // `before` is still in `reads`, so that it survives; its index may change.
    const auto copy = before & setBit ? readerSets[before & ~setBit] : std::array<uint32_t, agentCount>{};
    collect();
    if (before & setBit) {
      readerSets.push_back(copy);
      before = setBit | uint32_t(readerSets.size() - 1);
    }
  }
  std::array<uint32_t, agentCount> set{};
  if (before & setBit) {
    set = readerSets[before & ~setBit];
  } else {
    set[before >> clockBits] = before & clockMask;
  }
  set[by.agent] = clock;
  readerSets.push_back(set);
  const uint32_t after = setBit | uint32_t(readerSets.size() - 1);
  transitions.emplace(key, after);
  return after;
}

void SharedMemory::collect() {
  std::vector<std::array<uint32_t, agentCount>> kept;
  std::unordered_map<uint32_t, uint32_t> moved;
  for (uint32_t &entry : reads) {
    if (entry & setBit) {
      auto [found, isNew] = moved.emplace(entry, setBit | uint32_t(kept.size()));
      if (isNew) {
        kept.push_back(readerSets[entry & ~setBit]);
      }
      entry = found->second;
    }
  }
  readerSets = std::move(kept);
  transitions.clear();
}

void SharedMemory::checkReadersBefore(uint32_t before, uint32_t address, const Accessor &by) const {
  if (before == 0) {
    return;
  }
  if (!(before & setBit)) {
    const unsigned agent = before >> clockBits;
    if (agent != by.agent && (before & clockMask) > by.clocks->seen[agent]) {
      race("it was read", address, agent, 0, by);
    }
    return;
  }
  const auto &set = readerSets[before & ~setBit];
  for (unsigned agent = 0; agent < agentCount; ++agent) {
    if (agent != by.agent && set[agent] > by.clocks->seen[agent]) {
      race("it was read", address, agent, 0, by);
    }
  }
}

void SharedMemory::noteWrite(uint32_t address, uint32_t size, const uint8_t *value, const Accessor &by) {
  const Write now{by.clocks->seen[by.agent],
                  uint8_t(by.agent),
                  uint8_t(by.lane),
                  true,
                  by.atomic,
                  false,
                  by.agent >= warpAgents && by.asyncProxy,
                  0};
  for (uint32_t i = address; i < address + size;) {
    const Write last = writes[i];
    const uint32_t before = reads[i];
    uint32_t j = i + 1;
    while (j < address + size && writes[j] == last && reads[j] == before) {
      ++j;
    }
    const bool same = value && std::memcmp(value + (i - address), bytes.data() + i, j - i) == 0;
    if (last.pending && !(last.agent == by.agent && last.lane == by.lane)) {
      fail(FaultKind::Race,
           "expects a wait for the asynchronous copy of {} before offset {} of shared memory is written",
           describeAgent(last.agent, last.lane), i - reservedBytes);
    }
    if (last.valid && checks.races && !(last.atomic && by.atomic) && !same) {
      if (last.agent != by.agent) {
        if (last.clock > by.clocks->seen[last.agent]) {
          race("it was written", i, last.agent, last.lane, by);
        }
      } else if (last.lane != by.lane && last.clock == now.clock && by.agent < warpAgents && warn) {
        warn("lanes of a warp store different values to one address of shared memory without a warp barrier");
      }
    }
    if (checks.races && !(by.atomic && last.atomic)) {
      checkReadersBefore(before, i, by);
    }
    for (uint32_t k = i; k < j; ++k) {
      writes[k] = now;
      reads[k] = 0;
    }
    i = j;
  }
}

void SharedMemory::write(uint32_t address, uint32_t size, const void *value, const Accessor &by) {
  checkBounds(address, size);
  if (checks.races || checks.uninitialised) {
    noteWrite(address, size, static_cast<const uint8_t *>(value), by);
  }
  std::memcpy(bytes.data() + address, value, size);
}

void SharedMemory::atomic(uint32_t address, uint32_t size, const Accessor &by) {
  checkBounds(address, size);
  if (checks.races || checks.uninitialised) {
    Accessor reader = by;
    reader.atomic = true;
    noteRead(address, size, reader);
    noteWrite(address, size, nullptr, reader);
  }
}

void SharedMemory::markPending(uint32_t address, uint32_t size, const Accessor &by) {
  checkBounds(address, size);
  if (!checks.races) {
    return;
  }
  for (uint32_t i = address; i < address + size; ++i) {
    Write &last = writes[i];
    if (last.pending && !(last.agent == by.agent && last.lane == by.lane)) {
      fail(FaultKind::Race, "expects a wait for the asynchronous copy of {} before another one to offset {} starts",
           describeAgent(last.agent, last.lane), i - reservedBytes);
    }
    if (last.valid && last.agent != by.agent && last.clock > by.clocks->seen[last.agent]) {
      race("it was written", i, last.agent, last.lane, by);
    }
    checkReadersBefore(reads[i], i, by);
    last.pending = true;
    last.agent = uint8_t(by.agent);
    last.lane = uint8_t(by.lane);
    last.clock = by.clocks->seen[by.agent];
    reads[i] = 0;
  }
}

void SharedMemory::unmarkPending(uint32_t address, uint32_t size) {
  if (checks.races) {
    for (uint32_t i = address; i < address + size; ++i) {
      writes[i].pending = false;
    }
  }
}

const uint8_t *SharedMemory::readRemote(uint32_t address, uint32_t size) {
  checkBounds(address, size);
  return bytes.data() + address;
}

void SharedMemory::writeRemote(uint32_t address, uint32_t size, const void *value) {
  checkBounds(address, size);
  if (checks.races || checks.uninitialised) {
    for (uint32_t i = address; i < address + size; ++i) {
      writes[i] = {};
      writes[i].valid = true;
      reads[i] = 0;
    }
  }
  std::memcpy(bytes.data() + address, value, size);
}

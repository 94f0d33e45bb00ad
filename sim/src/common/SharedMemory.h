//===- SharedMemory.h - Shared memory with its checks -----------*- C++ -*-===//
//
// The bytes of one CTA's shared memory, and for each byte who wrote it last and who has read it since. Order between
// warps is kept as vector clocks: every barrier hands on what the arriving warps had done. Two accesses to a byte, one
// of them a write, that are not ordered by the clocks are a race, whatever order they happened to run in.
//
// Agents are the warps of the CTA (0..31) and, for each, the asynchronous copies and matrix products it has started
// (32..63): their accesses are ordered only by what waits for them.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_SHAREDMEMORY_H
#define KVCSIM_COMMON_SHAREDMEMORY_H

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvc::sim {

inline constexpr unsigned warpAgents = 32;
inline constexpr unsigned agentCount = 64;

/// What an agent knows: the clock of every agent up to which its accesses came before.
struct Clocks {
  std::array<uint32_t, agentCount> seen{};
  /// The same for writes that a proxy fence has made visible to the asynchronous proxy.
  std::array<uint32_t, agentCount> fenced{};

  void join(const Clocks &other) {
    for (unsigned i = 0; i < agentCount; ++i) {
      seen[i] = seen[i] > other.seen[i] ? seen[i] : other.seen[i];
      fenced[i] = fenced[i] > other.fenced[i] ? fenced[i] : other.fenced[i];
    }
  }
  void fenceProxy() {
    for (unsigned i = 0; i < agentCount; ++i) {
      fenced[i] = fenced[i] > seen[i] ? fenced[i] : seen[i];
    }
  }
};

/// Who accesses.
struct Accessor {
  unsigned agent;
  unsigned lane;
  const Clocks *clocks;
  /// Reads through the asynchronous proxy: what generic stores wrote must have been fenced.
  bool asyncProxy = false;
  /// Atomic operations do not race with each other.
  bool atomic = false;
};

struct SharedChecks {
  bool races = true;
  bool uninitialised = true;
};

class SharedMemory {
public:
  /// `reserved` bytes at the start belong to nobody.
  void reset(uint32_t reserved, uint32_t bytes, SharedChecks checks);

  uint32_t end() const { return uint32_t(bytes.size()); }
  uint8_t *data() { return bytes.data(); }

  /// Checks bounds, and what was asked for, and gives the bytes. Throws Fault.
  const uint8_t *read(uint32_t address, uint32_t size, const Accessor &by) {
    checkBounds(address, size);
    if (checks.races || checks.uninitialised) {
      noteRead(address, size, by);
    }
    return bytes.data() + address;
  }
  /// `value` is needed to tell a harmless second store of the same value.
  void write(uint32_t address, uint32_t size, const void *value, const Accessor &by);
  void atomic(uint32_t address, uint32_t size, const Accessor &by);
  /// The bytes are the destination of an asynchronous copy until `settle`: nobody may touch them.
  void markPending(uint32_t address, uint32_t size, const Accessor &by);
  /// Takes back markPending without writing.
  void unmarkPending(uint32_t address, uint32_t size);
  void checkBounds(uint32_t address, uint32_t size) const;
  /// Accesses of other CTAs of a cluster: bounds are checked, order is not.
  const uint8_t *readRemote(uint32_t address, uint32_t size);
  void writeRemote(uint32_t address, uint32_t size, const void *value);

  /// Exchange between lanes without a warp barrier, and the like: does not stop the program. Each text once.
  std::function<void(const std::string &)> warn;

private:
  struct Write {
    uint32_t clock = 0;
    uint8_t agent = 0;
    uint8_t lane = 0;
    /// Written at all.
    bool valid : 1 = false;
    bool atomic : 1 = false;
    bool pending : 1 = false;
    bool asyncProxy : 1 = false;
    uint8_t padding = 0;
    bool operator==(const Write &) const = default;
  };
  static_assert(sizeof(Write) == 8);

  void noteRead(uint32_t address, uint32_t size, const Accessor &by);
  void noteWrite(uint32_t address, uint32_t size, const uint8_t *value, const Accessor &by);
  uint32_t afterRead(uint32_t reads, const Accessor &by);
  void checkReadersBefore(uint32_t reads, uint32_t address, const Accessor &by) const;
  [[noreturn]] void race(const char *what, uint32_t address, unsigned agent, unsigned lane, const Accessor &by) const;
  void collect();

  std::vector<uint8_t> bytes;
  std::vector<Write> writes;
  /// 0: no read since the last write; else one reader (agent and clock), or an index into `readerSets`.
  std::vector<uint32_t> reads;
  std::vector<std::array<uint32_t, agentCount>> readerSets;
  std::unordered_map<uint64_t, uint32_t> transitions;
  uint32_t reservedBytes = 0;
  SharedChecks checks;
};

std::string describeAgent(unsigned agent, unsigned lane);

} // namespace kvc::sim

#endif // KVCSIM_COMMON_SHAREDMEMORY_H

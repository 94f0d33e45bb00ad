//===- Lds.cpp - Accesses to LDS ------------------------------------------===//
#include "amdgcn/Exec.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

namespace {

/// Numbers the operation and marks its registers. Permutations go through LDS without touching its bytes.
void start(Wave &wave, const Inst &inst, bool touches = true) {
  const uint32_t number = wave.waits.issue(Counter::Lds, false);
  if (touches) {
    wave.ldsIssued(number);
  }
  if (inst.d.count != 0) {
    wave.waits.markPending(inst, inst.d, Counter::Lds, number, Counter::Lds, number);
  }
}

void readInto(Wave &wave, const Inst &inst, uint32_t address, unsigned lane, unsigned reg) {
  const Accessor by{wave.index, lane, &wave.clocks, false, false};
  const uint8_t *from = wave.group->lds.read(address, inst.bytes, by);
  uint32_t *to = wave.row(reg) + lane;
  if (inst.bytes >= 4) {
    for (unsigned i = 0; i < inst.bytes / 4; ++i) {
      std::memcpy(to + size_t(i) * rowLanes, from + 4 * i, 4);
    }
    return;
  }
  uint32_t value = 0;
  std::memcpy(&value, from, inst.bytes);
  if (inst.flags & SignExtend) {
    value = inst.bytes == 1 ? uint32_t(int32_t(int8_t(value))) : uint32_t(int32_t(int16_t(value)));
  }
  if (inst.flags & (D16 | D16High)) {
    const uint32_t old = programOf(wave).chip->cdna() ? 0 : *to;
    value = inst.flags & D16 ? (old & 0xffff0000) | (value & 0xffff) : (old & 0xffff) | (value << 16);
  }
  *to = value;
}

void writeFrom(Wave &wave, const Inst &inst, uint32_t address, unsigned lane, const uint32_t *rows) {
  uint32_t value[4] = {};
  for (unsigned i = 0; i < std::max(1u, inst.bytes / 4u); ++i) {
    value[i] = rows[size_t(i) * rowLanes + lane];
  }
  if (inst.flags & D16High) {
    value[0] >>= 16;
  }
  const Accessor by{wave.index, lane, &wave.clocks, false, false};
  wave.group->lds.write(address, inst.bytes, value, by);
}

uint64_t valueOf(const uint32_t *rows, unsigned lane, unsigned bytes) {
  return bytes == 8 ? rows[lane] | (uint64_t(rows[rowLanes + lane]) << 32) : rows[lane];
}

void atomicOf(Wave &wave, const Inst &inst, uint32_t address, unsigned lane, const uint32_t *first,
              const uint32_t *second) {
  const Accessor by{wave.index, lane, &wave.clocks, false, true};
  if (address & (inst.bytes - 1)) {
    fail(FaultKind::Misaligned, "expects an LDS address that is a multiple of {}, but got {:#x} (lane {})", inst.bytes,
         address, lane);
  }
  wave.group->lds.atomic(address, inst.bytes, by);
  uint8_t *at = wave.group->lds.data() + address;
  uint64_t old = 0;
  std::memcpy(&old, at, inst.bytes);
  const auto op = static_cast<AtomicOp>(inst.operation);
  const uint64_t result = atomicResult(op, inst.bytes, old, valueOf(first, lane, inst.bytes),
                                       second ? valueOf(second, lane, inst.bytes) : 0);
  std::memcpy(at, &result, inst.bytes);
  if (inst.flags & ReturnsOld) {
    uint32_t *to = wave.row(inst.d.first) + lane;
    to[0] = uint32_t(old);
    if (inst.bytes == 8) {
      to[rowLanes] = uint32_t(old >> 32);
    }
  }
}

} // namespace

void kvc::sim::amdgcn::execLds(Wave &wave, const Inst &inst) {
  const uint64_t active = wave.exec();
  const uint32_t *base = wave.row(inst.s[AddressSource].reg);
  const uint32_t *data = inst.s[DataSource].kind == Source::Kind::Vector ? wave.row(inst.s[DataSource].reg) : nullptr;
  const uint32_t *data2 =
      inst.s[ScalarSource].kind == Source::Kind::Vector ? wave.row(inst.s[ScalarSource].reg) : nullptr;
  const unsigned accesses = inst.flags & TwoAddresses ? 2 : 1;
  InstCounters &counters = countersOf(wave, inst);
  // Addresses first: the destination may be the address's register.
  uint32_t addresses[2][rowLanes];
  for (unsigned n = 0; n < accesses; ++n) {
    const auto offset = uint32_t(n == 0 ? inst.offset : inst.offset2);
    eachLane(active, [&](unsigned lane) { addresses[n][lane] = base[lane] + offset; });
  }
  for (unsigned n = 0; n < accesses; ++n) {
    eachLane(active, [&](unsigned lane) {
      const uint32_t address = addresses[n][lane];
      if (inst.flags & IsAtomic) {
        atomicOf(wave, inst, address, lane, data, data2);
      } else if (inst.flags & IsStore) {
        writeFrom(wave, inst, address, lane, n == 0 ? data : data2);
      } else {
        readInto(wave, inst, address, lane, inst.d.first + n * std::max(1u, inst.bytes / 4u));
      }
    });
    counters.bytes += uint64_t(std::popcount(active)) * inst.bytes;
    countBanks(counters, addresses[n], active, inst.bytes, programOf(wave).chip->ldsBanks);
  }
  start(wave, inst);
}

void kvc::sim::amdgcn::execLdsPermute(Wave &wave, const Inst &inst) {
  const uint64_t active = wave.exec();
  uint32_t result[rowLanes] = {};
  const auto lanes = wave.lanes;
  if (inst.operation == 2) {
    // ds_swizzle: groups of four lanes, or a mask over 32 lanes.
    const uint32_t *from = wave.row(inst.s[AddressSource].reg);
    const auto pattern = uint32_t(inst.offset);
    for (unsigned i = 0; i < lanes; ++i) {
      unsigned source;
      if (pattern & 0x8000) {
        source = (i & ~3u) | (pattern >> (2 * (i & 3)) & 3);
      } else {
        const unsigned a = pattern & 31, o = pattern >> 5 & 31, x = pattern >> 10 & 31;
        source = (i & ~31u) | ((((i & 31) & a) | o) ^ x);
      }
      result[i] = active >> source & 1 ? from[source] : 0;
    }
  } else {
    const uint32_t *where = wave.row(inst.s[AddressSource].reg), *from = wave.row(inst.s[DataSource].reg);
    // ds_permute writes to lanes, ds_bpermute reads from them; rows of 32 lanes on RDNA.
    const bool rows32 = !programOf(wave).chip->cdna();
    eachLane(active, [&](unsigned lane) {
      const uint32_t index = (where[lane] + uint32_t(inst.offset)) / 4;
      const unsigned other = rows32 ? (lane & ~31u) | (index & 31) : index & (lanes - 1);
      if (inst.operation == 1) {
        result[other] = from[lane];
      } else {
        result[lane] = active >> other & 1 ? from[other] : 0;
      }
    });
  }
  uint32_t *to = wave.row(inst.d.first);
  eachLane(active, [&](unsigned lane) { to[lane] = result[lane]; });
  start(wave, inst, /*touches=*/false);
}

/// Groups of 16 lanes read a block together: lane i gives the address of 64 bits of a row; it gets a column's element
/// of each of the rows that its element size says. `operation` is the bits of an element.
void kvc::sim::amdgcn::execLdsTranspose(Wave &wave, const Inst &inst) {
  const uint64_t active = wave.exec();
  if (active != wave.laneMask) {
    fail(FaultKind::Unsupported, "expects all lanes of a wave in a transposed read of LDS, but got {:#x}", active);
  }
  const uint32_t *base = wave.row(inst.s[AddressSource].reg);
  const unsigned bits = inst.operation, each = 64 / bits;
  uint64_t words[rowLanes];
  uint32_t addresses[rowLanes];
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    addresses[lane] = base[lane] + uint32_t(inst.offset);
    const Accessor by{wave.index, lane, &wave.clocks, false, false};
    if (addresses[lane] & 7) {
      fail(FaultKind::Misaligned, "expects an LDS address that is a multiple of 8, but got {:#x} (lane {})",
           addresses[lane], lane);
    }
    std::memcpy(&words[lane], wave.group->lds.read(addresses[lane], 8, by), 8);
  }
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    const unsigned group = lane & ~15u, column = lane & 15;
    // Lane g of a group holds elements each*(g % (16/each)) .. of row g / (16/each).
    const unsigned perRow = 16 / each;
    uint64_t value = 0;
    for (unsigned r = 0; r < each; ++r) {
      const unsigned holder = group + r * perRow + column / each;
      const uint64_t element = words[holder] >> (bits * (column % each)) & ((uint64_t(1) << bits) - 1);
      value |= element << (bits * r);
    }
    wave.row(inst.d.first)[lane] = uint32_t(value);
    wave.row(inst.d.first + 1)[lane] = uint32_t(value >> 32);
  }
  InstCounters &counters = countersOf(wave, inst);
  counters.bytes += uint64_t(wave.lanes) * 8;
  countBanks(counters, addresses, active, 8, programOf(wave).chip->ldsBanks);
  start(wave, inst);
}

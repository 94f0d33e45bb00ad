//===- Memory.cpp - Global, flat, buffer, private and scalar accesses -----===//
#include "amdgcn/Exec.h"
#include "common/Floats.h"

#include <algorithm>
#include <utility>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

Counter kvc::sim::amdgcn::counterOf(const Chip &chip, Class kind) {
  switch (kind) {
  case Class::Store:
    return chip.cdna() ? Counter::Load : Counter::Store;
  case Class::ScalarLoad:
    return chip.family == Family::Rdna4 ? Counter::Scalar : Counter::Lds;
  case Class::LdsRead:
  case Class::LdsWrite:
  case Class::LdsAtomic:
    return Counter::Lds;
  default:
    return Counter::Load;
  }
}

namespace {

/// Loads and stores may be at any address (the mode that HSA sets); atomics and scalar loads may not.
void checkAtomicAligned(const Inst &inst, uint64_t address, unsigned lane) {
  if (inst.flags & IsAtomic) {
    checkAligned(address, inst.bytes, lane);
  }
}

uint8_t *memoryAt(Wave &wave, uint64_t address, uint32_t size, unsigned lane, bool store) {
  return kvc::sim::globalAt(*wave.worker, *wave.worker->launch->memory, address, size, lane, store);
}

uint8_t *privateAt(Wave &wave, uint64_t address, uint32_t size, unsigned lane) {
  const uint32_t bytes = programOf(wave).kernel->privateBytes;
  if (address > bytes || size > bytes - address) {
    fail(FaultKind::IllegalAddress,
         "expects an access to the {} bytes of private memory, but got {} bytes at {} (lane {})", bytes, size, address,
         lane);
  }
  return wave.privateMemory.data() + size_t(lane) * bytes + address;
}

uint64_t readValue(const uint8_t *from, unsigned bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

/// Rows of a data operand.
const uint32_t *dataRows(Wave &wave, const Inst &inst) {
  const Source &data = inst.s[DataSource];
  return data.kind == Source::Kind::Vector ? wave.row(data.reg) : nullptr;
}

/// Puts loaded bytes into the destination registers of a lane.
void writeLane(Wave &wave, const Inst &inst, unsigned lane, const uint8_t *from) {
  uint32_t *to = wave.row(inst.d.first) + lane;
  if (inst.bytes >= 4) {
    for (unsigned i = 0; i < inst.bytes / 4; ++i) {
      std::memcpy(to + size_t(i) * rowLanes, from + 4 * i, 4);
    }
    return;
  }
  uint32_t value = uint32_t(readValue(from, inst.bytes));
  if (inst.flags & SignExtend) {
    value = inst.bytes == 1 ? uint32_t(int32_t(int8_t(value))) : uint32_t(int32_t(int16_t(value)));
  }
  if (inst.flags & (D16 | D16High)) {
    // With ECC on its registers, CDNA writes whole registers.
    const uint32_t old = programOf(wave).chip->cdna() ? 0 : *to;
    value = inst.flags & D16 ? (old & 0xffff0000) | (value & 0xffff) : (old & 0xffff) | (value << 16);
  }
  *to = value;
}

/// The bytes that a lane stores.
void readLane(const uint32_t *rows, const Inst &inst, unsigned lane, uint8_t *to) {
  if (inst.bytes >= 4) {
    for (unsigned i = 0; i < inst.bytes / 4; ++i) {
      std::memcpy(to + 4 * i, rows + size_t(i) * rowLanes + lane, 4);
    }
    return;
  }
  const uint32_t value = rows[lane] >> (inst.flags & D16High ? 16 : 0);
  std::memcpy(to, &value, inst.bytes);
}

void zeroLane(Wave &wave, const Inst &inst, unsigned lane) {
  static constexpr uint8_t zeros[16] = {};
  writeLane(wave, inst, lane, zeros);
}

uint64_t atomicValue(const uint32_t *rows, unsigned lane, unsigned bytes) {
  return bytes == 8 ? rows[lane] | (uint64_t(rows[rowLanes + lane]) << 32) : rows[lane];
}

/// One lane of an atomic on memory of the host: gives the value before.
uint64_t atomicAt(uint8_t *at, const Inst &inst, const uint32_t *rows, unsigned lane) {
  const auto op = static_cast<AtomicOp>(inst.operation);
  const uint64_t value = atomicValue(rows, lane, inst.bytes);
  const uint64_t compare =
      op == AtomicOp::CmpSwap ? atomicValue(rows + size_t(inst.bytes / 4) * rowLanes, lane, inst.bytes) : 0;
  // Other threads may run other work-groups: the update is one of the host, too.
  auto update = [&]<typename T>(T *to) {
    T old = __atomic_load_n(to, __ATOMIC_RELAXED), next;
    do {
      next = T(atomicResult(op, sizeof(T), old, value, compare));
    } while (!__atomic_compare_exchange_n(to, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return uint64_t(old);
  };
  return inst.bytes == 8 ? update(reinterpret_cast<uint64_t *>(at)) : update(reinterpret_cast<uint32_t *>(at));
}

void writeOld(Wave &wave, const Inst &inst, unsigned lane, uint64_t old) {
  if (inst.flags & ReturnsOld) {
    uint32_t *to = wave.row(inst.d.first) + lane;
    to[0] = uint32_t(old);
    if (inst.bytes == 8) {
      to[rowLanes] = uint32_t(old >> 32);
    }
  }
}

/// Where a direct load puts a lane's bytes in LDS.
void writeToLds(Wave &wave, const Inst &inst, unsigned lane, const uint8_t *from) {
  uint32_t value[4] = {};
  std::memcpy(value, from, inst.bytes);
  if (inst.flags & SignExtend) {
    value[0] = inst.bytes == 1 ? uint32_t(int32_t(int8_t(value[0]))) : uint32_t(int32_t(int16_t(value[0])));
  }
  const uint32_t bytes = std::max<uint32_t>(inst.bytes, 4);
  // 16 bits of M0 are enough for the LDS of chips before gfx950.
  const bool wide = programOf(wave).chip->ldsBytes > 0x10000;
  const uint32_t base = wide ? wave.s[sreg::M0] : wave.s[sreg::M0] & 0xffff;
  const uint32_t address = base + uint32_t(inst.offset) + lane * bytes;
  // An agent of its own, which the wave knows up to what it has waited for.
  Clocks &clocks = wave.clocks;
  const uint32_t known = std::exchange(clocks.seen[wave.loadAgent()], wave.ldsLoadClock);
  const Accessor by{wave.loadAgent(), lane, &clocks, false, false};
  wave.group->lds.write(address, bytes, value, by);
  clocks.seen[wave.loadAgent()] = known;
}

/// A load, store or atomic of one lane.
void access(Wave &wave, const Inst &inst, uint8_t *at, const uint32_t *data, unsigned lane) {
  if (inst.flags & IsAtomic) {
    writeOld(wave, inst, lane, atomicAt(at, inst, data, lane));
  } else if (inst.flags & IsStore) {
    readLane(data, inst, lane, at);
  } else if (inst.flags & ToLds) {
    writeToLds(wave, inst, lane, at);
  } else {
    writeLane(wave, inst, lane, at);
  }
}

/// A flat access to LDS of one lane.
void flatLds(Wave &wave, const Inst &inst, uint32_t address, const uint32_t *data, unsigned lane) {
  SharedMemory &lds = wave.group->lds;
  const Accessor by{wave.index, lane, &wave.clocks, false, (inst.flags & IsAtomic) != 0};
  checkAtomicAligned(inst, address, lane);
  if (inst.flags & IsAtomic) {
    lds.atomic(address, inst.bytes, by);
    writeOld(wave, inst, lane, atomicAt(lds.data() + address, inst, data, lane));
  } else if (inst.flags & IsStore) {
    uint8_t value[16];
    readLane(data, inst, lane, value);
    lds.write(address, inst.bytes, value, by);
  } else {
    writeLane(wave, inst, lane, lds.read(address, inst.bytes, by));
  }
}

/// Numbers the operation and marks its registers: what a flat access read from LDS comes with the counter of LDS.
void start(Wave &wave, const Inst &inst, bool touchedLds = false) {
  const Chip &chip = *programOf(wave).chip;
  const bool store = (inst.flags & IsStore) || ((inst.flags & IsAtomic) && !(inst.flags & ReturnsOld));
  const Counter counter = store ? counterOf(chip, Class::Store) : Counter::Load;
  const uint32_t number = wave.waits.issue(counter, touchedLds);
  const uint32_t second = touchedLds ? wave.waits.issue(Counter::Lds, true) : number;
  if (touchedLds) {
    wave.ldsIssued(second);
  }
  if (inst.flags & ToLds) {
    // The bytes are there for others when the load has been waited for.
    wave.ldsLoads.emplace_back(number, wave.ldsLoadClock);
  }
  if (!store && inst.d.count != 0) {
    wave.waits.markPending(inst, inst.d, counter, number, touchedLds ? Counter::Lds : counter, second);
  }
}

} // namespace

uint64_t kvc::sim::amdgcn::atomicResult(AtomicOp op, unsigned bytes, uint64_t old, uint64_t value, uint64_t compare) {
  const bool wide = bytes == 8;
  const int64_t signedOld = wide ? int64_t(old) : int32_t(old), signedValue = wide ? int64_t(value) : int32_t(value);
  auto floating = [&](auto f32, auto f64) -> uint64_t {
    if (wide) {
      return std::bit_cast<uint64_t>(f64(std::bit_cast<double>(old), std::bit_cast<double>(value)));
    }
    return std::bit_cast<uint32_t>(f32(std::bit_cast<float>(uint32_t(old)), std::bit_cast<float>(uint32_t(value))));
  };
  auto halves = [&](auto add) {
    return uint64_t(add(uint16_t(old), uint16_t(value))) |
           (uint64_t(add(uint16_t(old >> 16), uint16_t(value >> 16))) << 16);
  };
  switch (op) {
  case AtomicOp::Swap:
    return value;
  case AtomicOp::CmpSwap:
    return old == compare ? value : old;
  case AtomicOp::Add:
    return old + value;
  case AtomicOp::Sub:
    return old - value;
  case AtomicOp::Rsub:
    return value - old;
  case AtomicOp::Min:
    return signedOld < signedValue ? old : value;
  case AtomicOp::Max:
    return signedOld > signedValue ? old : value;
  case AtomicOp::UMin:
    return std::min(old, value);
  case AtomicOp::UMax:
    return std::max(old, value);
  case AtomicOp::And:
    return old & value;
  case AtomicOp::Or:
    return old | value;
  case AtomicOp::Xor:
    return old ^ value;
  case AtomicOp::Inc:
    return old >= value ? 0 : old + 1;
  case AtomicOp::Dec:
    return old == 0 || old > value ? value : old - 1;
  case AtomicOp::FAdd:
    return floating([](float a, float b) { return a + b; }, [](double a, double b) { return a + b; });
  case AtomicOp::FMin:
    return floating([](float a, float b) { return std::fmin(a, b); },
                    [](double a, double b) { return std::fmin(a, b); });
  case AtomicOp::FMax:
    return floating([](float a, float b) { return std::fmax(a, b); },
                    [](double a, double b) { return std::fmax(a, b); });
  case AtomicOp::PkAddF16:
    return halves([](uint16_t a, uint16_t b) { return floatToF16(f16ToFloat(a) + f16ToFloat(b)); });
  case AtomicOp::PkAddBF16:
    return halves([](uint16_t a, uint16_t b) { return floatToBf16(bf16ToFloat(a) + bf16ToFloat(b)); });
  }
  return 0;
}

void kvc::sim::amdgcn::execScalarLoad(Wave &wave, const Inst &inst) {
  const uint64_t offset =
      uint64_t(inst.offset) + (inst.s[1].kind == Source::Kind::None ? 0 : scalar32(wave, inst.s[1]));
  const unsigned base = inst.s[0].reg;
  uint64_t address = wave.pair(base) + offset;
  bool inside = true;
  if (inst.s[0].dwords == 4) {
    // A buffer: 48 bits of base, then stride, then the number of bytes.
    address = (wave.pair(base) & 0xffffffffffff) + offset;
    inside = offset + inst.bytes <= wave.s[base + 2];
  }
  if (inst.bytes >= 4) {
    checkAligned(address, 4, 0);
  }
  // The arguments are no traffic of the kernel's data.
  const Launch &launch = *wave.worker->launch;
  if (inside && address - launch.kernarg >= programOf(wave).kernel->kernargBytes) {
    InstCounters &counters = countersOf(wave, inst);
    counters.bytes += inst.bytes;
    counters.sectors += (address + inst.bytes - 1) / 32 - address / 32 + 1;
  }
  const uint8_t *from = inside ? memoryAt(wave, address, inst.bytes, 0, false) : nullptr;
  if (inst.bytes >= 4) {
    for (unsigned i = 0; i < inst.bytes / 4; ++i) {
      setScalar(wave, inst.d.first + i, from ? uint32_t(readValue(from + 4 * i, 4)) : 0);
    }
  } else {
    uint32_t value = from ? uint32_t(readValue(from, inst.bytes)) : 0;
    if (inst.flags & SignExtend) {
      value = inst.bytes == 1 ? uint32_t(int32_t(int8_t(value))) : uint32_t(int32_t(int16_t(value)));
    }
    setScalar(wave, inst.d.first, value);
  }
  const Counter counter = counterOf(*programOf(wave).chip, Class::ScalarLoad);
  const uint32_t number = wave.waits.issue(counter, true);
  if (inst.d.first != sreg::Null) {
    wave.waits.markPending(inst, inst.d, counter, number, counter, number);
  }
}

void kvc::sim::amdgcn::execGlobal(Wave &wave, const Inst &inst) {
  const uint64_t active = wave.exec();
  const bool store = inst.flags & (IsStore | IsAtomic);
  const Source &vector = inst.s[AddressSource], &scalar = inst.s[ScalarSource];
  const bool scratch = inst.flags & IsScratch;
  uint64_t base = uint64_t(inst.offset);
  if (scalar.kind == Source::Kind::Scalar && scalar.reg != sreg::Null) {
    base += scratch ? uint64_t(wave.s[scalar.reg]) : wave.pair(scalar.reg);
  }
  const uint32_t *lo = vector.kind == Source::Kind::Vector ? wave.row(vector.reg) : nullptr;
  const uint32_t *hi = lo && vector.dwords == 2 ? lo + rowLanes : nullptr;
  const uint32_t *data = dataRows(wave, inst);
  uint64_t addresses[rowLanes];
  uint64_t global = 0;
  bool touchedLds = false;
  wave.ldsLoadClock += inst.flags & ToLds ? 1 : 0;
  eachLane(active, [&](unsigned lane) {
    uint64_t address = base + (lo ? lo[lane] : 0) + (hi ? uint64_t(hi[lane]) << 32 : 0);
    const uint64_t window = address & 0xffffffff00000000;
    if (scratch || ((inst.flags & IsFlat) && window == privateAperture)) {
      access(wave, inst, privateAt(wave, scratch ? uint32_t(address) : address - privateAperture, inst.bytes, lane),
             data, lane);
      return;
    }
    if ((inst.flags & IsFlat) && window == ldsAperture) {
      touchedLds = true;
      flatLds(wave, inst, uint32_t(address), data, lane);
      return;
    }
    checkAtomicAligned(inst, address, lane);
    addresses[lane] = address;
    global |= uint64_t(1) << lane;
    access(wave, inst, memoryAt(wave, address, inst.bytes, lane, store), data, lane);
  });
  countGlobal(countersOf(wave, inst), addresses, global, inst.bytes);
  start(wave, inst, touchedLds);
}

void kvc::sim::amdgcn::execBuffer(Wave &wave, const Inst &inst) {
  const uint64_t active = wave.exec();
  const bool store = inst.flags & (IsStore | IsAtomic);
  const uint32_t *resource = &wave.s[inst.s[ResourceSource].reg];
  const uint64_t base = (resource[0] | (uint64_t(resource[1]) << 32)) & 0xffffffffffff;
  const uint32_t stride = resource[1] >> 16 & 0x3fff, records = resource[2];
  const bool isPrivate = resource[1] >> 31;
  if ((resource[1] >> 30 & 1) || (!isPrivate && stride != 0 && !(inst.flags & IdxEn)) || (isPrivate && base != 0)) {
    fail(FaultKind::Unsupported,
         "expects a buffer without swizzle and, without an index, without stride, but got {:#x}", resource[1]);
  }
  const uint32_t scalar = inst.s[ScalarSource].kind == Source::Kind::None ? 0 : scalar32(wave, inst.s[ScalarSource]);
  const Source &vector = inst.s[AddressSource];
  const uint32_t *first = vector.kind == Source::Kind::Vector ? wave.row(vector.reg) : nullptr;
  const bool both = (inst.flags & OffEn) && (inst.flags & IdxEn);
  const uint32_t *data = dataRows(wave, inst);
  uint64_t addresses[rowLanes];
  uint64_t inside = 0;
  wave.ldsLoadClock += inst.flags & ToLds ? 1 : 0;
  eachLane(active, [&](unsigned lane) {
    const uint64_t index = inst.flags & IdxEn ? first[lane] : 0;
    const uint32_t vectorOffset = both ? first[rowLanes + lane] : inst.flags & OffEn ? first[lane] : 0;
    const uint64_t offset = uint64_t(vectorOffset) + uint64_t(inst.offset) + scalar;
    if (isPrivate) {
      access(wave, inst, privateAt(wave, offset, inst.bytes, lane), data, lane);
      return;
    }
    // Raw buffers count bytes, structured ones records.
    bool in = stride == 0 ? offset < records : index < records && offset < stride;
    if (in && stride == 0 && offset + inst.bytes > records) {
      fail(FaultKind::IllegalAddress,
           "expects a buffer access that is inside or outside as a whole, but got {} bytes at {} of {} (lane {})",
           inst.bytes, offset, records, lane);
    }
    if (!in) {
      if (inst.flags & ToLds) {
        static constexpr uint8_t zeros[16] = {};
        writeToLds(wave, inst, lane, zeros);
      } else if (inst.flags & IsAtomic) {
        writeOld(wave, inst, lane, 0);
      } else if (!(inst.flags & IsStore)) {
        zeroLane(wave, inst, lane);
      }
      return;
    }
    const uint64_t address = base + index * stride + offset;
    checkAtomicAligned(inst, address, lane);
    addresses[lane] = address;
    inside |= uint64_t(1) << lane;
    access(wave, inst, memoryAt(wave, address, inst.bytes, lane, store), data, lane);
  });
  countGlobal(countersOf(wave, inst), addresses, inside, inst.bytes);
  start(wave, inst);
}

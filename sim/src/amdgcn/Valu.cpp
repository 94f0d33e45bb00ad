//===- Valu.cpp - Executes vector instructions ----------------------------===//
#include "amdgcn/Exec.h"

#include "common/Floats.h"

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;

namespace {

struct alignas(64) Scratch {
  uint32_t rows[4 * rowLanes];
};

uint32_t selectPart(uint32_t value, unsigned select, bool sext) {
  if (select < Word0) {
    const uint32_t byte = value >> (8 * select) & 0xff;
    return sext ? uint32_t(int32_t(int8_t(byte))) : byte;
  }
  if (select < Dword) {
    const uint32_t word = value >> (16 * (select - Word0)) & 0xffff;
    return sext ? uint32_t(int32_t(int16_t(word))) : word;
  }
  return value;
}

/// Bits that neg and abs change, for values of one row.
uint32_t signOf(Type type) { return type == Type::F16 || type == Type::BF16 ? 0x8000 : 0x80000000; }

/// Applies the input modifiers of a source to its rows.
void modify(const Inst &inst, const Source &s, const uint32_t *from, uint32_t *to, unsigned lanes) {
  if (inst.row && inst.row->flags & Mixed) {
    // selHi: the source is a half of the register; else it is f32.
    for (unsigned i = 0; i < lanes; ++i) {
      float value = s.selHi ? f16ToFloat(uint16_t(s.sel ? from[i] >> 16 : from[i])) : std::bit_cast<float>(from[i]);
      value = s.negHi ? std::fabs(value) : value;
      to[i] = std::bit_cast<uint32_t>(s.neg ? -value : value);
    }
    return;
  }
  switch (s.type) {
  case Type::H2:
  case Type::S2:
  case Type::B32:
    if (s.type != Type::B32) {
      const uint32_t flip = s.type == Type::H2 ? (s.neg ? 0x8000u : 0) | (s.negHi ? 0x80000000u : 0) : 0;
      for (unsigned i = 0; i < lanes; ++i) {
        const uint32_t lo = s.sel ? from[i] >> 16 : from[i] & 0xffff, hi = s.selHi ? from[i] >> 16 : from[i] & 0xffff;
        to[i] = (lo | (hi << 16)) ^ flip;
      }
      return;
    }
    break;
  case Type::F2:
    for (unsigned i = 0; i < lanes; ++i) {
      const uint32_t lo = from[(s.sel ? rowLanes : 0) + i], hi = from[(s.selHi ? rowLanes : 0) + i];
      to[i] = lo ^ (s.neg ? 0x80000000 : 0);
      to[rowLanes + i] = hi ^ (s.negHi ? 0x80000000 : 0);
    }
    return;
  case Type::F64:
  case Type::B64:
    for (unsigned i = 0; i < lanes; ++i) {
      to[i] = from[i];
      uint32_t hi = from[rowLanes + i];
      hi = s.abs ? hi & 0x7fffffff : hi;
      to[rowLanes + i] = s.neg ? hi ^ 0x80000000 : hi;
    }
    return;
  default:
    break;
  }
  const uint32_t sign = signOf(s.type);
  const bool isFloat = s.type == Type::F16 || s.type == Type::F32 || s.type == Type::BF16 || s.type == Type::B32;
  for (unsigned i = 0; i < lanes; ++i) {
    uint32_t value = selectPart(from[i], s.sdwa, s.sext);
    value = s.hi ? value >> 16 : value;
    if (isFloat) {
      value = s.abs ? value & ~sign : value;
      value = s.neg ? value ^ sign : value;
    }
    to[i] = value;
  }
}

const uint32_t *rawRows(Wave &wave, const Source &s, uint32_t *scratch) {
  switch (s.kind) {
  case Source::Kind::Vector:
    return wave.row(s.reg);
  case Source::Kind::Constant:
    return programOf(wave).constants.data() + s.row;
  case Source::Kind::Scalar:
    for (unsigned d = 0; d < s.dwords; ++d) {
      std::fill_n(scratch + d * rowLanes, wave.lanes, s.reg == sreg::Null ? 0 : wave.s[s.reg + d]);
    }
    return scratch;
  case Source::Kind::None:
    break;
  }
  return nullptr;
}

/// The first source's rows as their lanes are permuted; takes lanes without a source out of `mask`.
const uint32_t *permuted(const Wave &wave, const Permutation &p, const uint32_t *from, unsigned dwords, uint32_t *to,
                         uint64_t &mask) {
  const uint64_t exec = wave.exec();
  uint64_t valid = 0;
  for (unsigned i = 0; i < wave.lanes; ++i) {
    const int source = p.from[i];
    const bool has = source >= 0 && (p.readsInactive || (exec >> source & 1));
    valid |= uint64_t(has) << i;
    for (unsigned d = 0; d < dwords; ++d) {
      to[d * rowLanes + i] = has ? from[d * rowLanes + unsigned(source)] : 0;
    }
  }
  mask &= p.enabled & (p.zeroInvalid ? ~uint64_t(0) : valid);
  return to;
}

float limit(float x) { return x > 0 ? (x > 1 ? 1 : x) : 0; }

float scaled(float x, unsigned omod) {
  switch (omod) {
  case 1:
    return x * 2;
  case 2:
    return x * 4;
  case 3:
    return x / 2;
  default:
    return x;
  }
}

/// Applies output modifiers and puts parts of registers together, in `rows`.
void finish(Wave &wave, const Inst &inst, uint32_t *rows) {
  const unsigned lanes = wave.lanes;
  if (inst.omod != 0 || inst.clamp) {
    auto change = [&](float x) {
      x = scaled(x, inst.omod);
      return inst.clamp ? limit(x) : x;
    };
    for (unsigned i = 0; i < lanes; ++i) {
      switch (inst.dType) {
      case Type::F32:
        rows[i] = std::bit_cast<uint32_t>(change(std::bit_cast<float>(rows[i])));
        break;
      case Type::F16:
        rows[i] = floatToF16(change(f16ToFloat(uint16_t(rows[i]))));
        break;
      case Type::H2:
        rows[i] = floatToF16(change(f16ToFloat(uint16_t(rows[i])))) |
                  (uint32_t(floatToF16(change(f16ToFloat(uint16_t(rows[i] >> 16))))) << 16);
        break;
      case Type::F2:
        rows[i] = std::bit_cast<uint32_t>(change(std::bit_cast<float>(rows[i])));
        rows[rowLanes + i] = std::bit_cast<uint32_t>(change(std::bit_cast<float>(rows[rowLanes + i])));
        break;
      case Type::F64: {
        double x = std::bit_cast<double>(rows[i] | (uint64_t(rows[rowLanes + i]) << 32));
        x = inst.omod == 1 ? x * 2 : inst.omod == 2 ? x * 4 : inst.omod == 3 ? x / 2 : x;
        x = !inst.clamp ? x : x > 0 ? (x > 1 ? 1 : x) : 0;
        const auto bits = std::bit_cast<uint64_t>(x);
        rows[i] = uint32_t(bits);
        rows[rowLanes + i] = uint32_t(bits >> 32);
        break;
      }
      default:
        break;
      }
    }
  }
  const uint32_t *old = wave.row(inst.d.first);
  switch (inst.merge) {
  case Merge::Whole:
    break;
  case Merge::Low:
    for (unsigned i = 0; i < lanes; ++i) {
      rows[i] = (old[i] & 0xffff0000) | (rows[i] & 0xffff);
    }
    break;
  case Merge::High:
    for (unsigned i = 0; i < lanes; ++i) {
      rows[i] = (old[i] & 0xffff) | (rows[i] << 16);
    }
    break;
  case Merge::Sdwa: {
    const bool byte = inst.sdwaSelect < Word0;
    const unsigned bits = byte ? 8 : 16, shift = byte ? 8 * inst.sdwaSelect : 16 * (inst.sdwaSelect - Word0);
    const uint32_t part = (1u << bits) - 1;
    for (unsigned i = 0; i < lanes; ++i) {
      const uint32_t value = rows[i] & part;
      uint32_t rest = 0;
      if (inst.sdwaUnused == SdwaUnused::Preserve) {
        rest = old[i] & ~(part << shift);
      } else if (inst.sdwaUnused == SdwaUnused::Sext && (value >> (bits - 1) & 1)) {
        rest = shift + bits == 32 ? 0 : ~uint32_t(0) << (shift + bits);
      }
      rows[i] = rest | (value << shift);
    }
    break;
  }
  }
}

} // namespace

const uint32_t *kvc::sim::amdgcn::fetch(Wave &wave, const Inst &inst, const Source &source, uint32_t *scratch) {
  const uint32_t *rows = rawRows(wave, source, scratch);
  if (!rows || !source.modified) {
    return rows;
  }
  modify(inst, source, rows, scratch, wave.lanes);
  return scratch;
}

void kvc::sim::amdgcn::writeRows(Wave &wave, const Inst &inst, uint32_t *rows, uint64_t mask) {
  for (unsigned d = 0; d < inst.d.count; ++d) {
    uint32_t *to = wave.row(inst.d.first + d);
    const uint32_t *from = rows + d * rowLanes;
    if (mask == wave.laneMask) {
      std::copy_n(from, wave.lanes, to);
    } else {
      for (unsigned i = 0; i < wave.lanes; ++i) {
        to[i] = (mask >> i & 1) ? from[i] : to[i];
      }
    }
  }
}

void kvc::sim::amdgcn::execLanes(Wave &wave, const Inst &inst) {
  Scratch sources[3], result, moved;
  uint64_t mask = wave.exec();
  const uint32_t *rows[3] = {nullptr, nullptr, nullptr};
  for (unsigned k = 0; k < inst.sources; ++k) {
    const Source &s = inst.s[k];
    if (k == 0 && inst.permutation) {
      const uint32_t *raw = rawRows(wave, s, sources[0].rows);
      rows[0] = permuted(wave, *inst.permutation, raw, s.dwords, moved.rows, mask);
      if (s.modified) {
        modify(inst, s, rows[0], sources[0].rows, wave.lanes);
        rows[0] = sources[0].rows;
      }
    } else {
      rows[k] = fetch(wave, inst, s, sources[k].rows);
    }
  }
  LaneArgs args;
  args.a = rows[0];
  args.b = rows[1];
  args.c = rows[2];
  args.lanes = wave.lanes;
  args.maskIn = wave.mask(inst.maskIn);
  args.immediate = uint32_t(inst.immediate);
  const bool direct = !inst.finished ? false : mask == wave.laneMask && inst.d.count != 0;
  args.d = direct ? wave.row(inst.d.first) : result.rows;
  inst.lane(args);
  if (!direct && inst.d.count != 0) {
    if (!inst.finished) {
      finish(wave, inst, result.rows);
    }
    writeRows(wave, inst, result.rows, mask);
  }
  if (inst.maskOut != sreg::Null) {
    wave.setMask(inst.maskOut, args.maskOut & mask);
  }
  if (inst.row->flags & WritesExec) {
    wave.setExec(args.maskOut & mask);
  }
}

void kvc::sim::amdgcn::execDual(Wave &wave, const Inst &inst) {
  // Both halves read before either writes.
  Scratch rows[2];
  const Inst *halves[2] = {&inst, inst.second.get()};
  const uint64_t mask = wave.exec();
  for (unsigned h = 0; h < 2; ++h) {
    const Inst &half = *halves[h];
    Scratch sources[3];
    const uint32_t *from[3] = {nullptr, nullptr, nullptr};
    for (unsigned k = 0; k < half.sources; ++k) {
      from[k] = fetch(wave, half, half.s[k], sources[k].rows);
    }
    LaneArgs args{rows[h].rows, from[0], from[1], from[2], wave.lanes, wave.mask(half.maskIn), 0, 0};
    half.lane(args);
    if (!half.finished) {
      finish(wave, half, rows[h].rows);
    }
  }
  for (unsigned h = 0; h < 2; ++h) {
    writeRows(wave, *halves[h], rows[h].rows, mask);
  }
}

void kvc::sim::amdgcn::execScalarLanes(Wave &wave, const Inst &inst) {
  Scratch source, result;
  LaneArgs args;
  args.a = fetch(wave, inst, inst.s[0], source.rows);
  args.d = result.rows;
  args.lanes = wave.lanes;
  inst.lane(args);
  setScalar(wave, inst.d.first, result.rows[0]);
}

// Across lanes --------------------------------------------------------------------------------------------------------

void kvc::sim::amdgcn::execReadFirstLane(Wave &wave, const Inst &inst) {
  Scratch scratch;
  const uint64_t exec = wave.exec();
  const unsigned lane = exec == 0 ? 0 : unsigned(std::countr_zero(exec));
  setScalar(wave, inst.d.first, fetch(wave, inst, inst.s[0], scratch.rows)[lane]);
}

void kvc::sim::amdgcn::execReadLane(Wave &wave, const Inst &inst) {
  Scratch scratch;
  const unsigned lane = scalar32(wave, inst.s[1]) & (wave.lanes - 1);
  setScalar(wave, inst.d.first, fetch(wave, inst, inst.s[0], scratch.rows)[lane]);
}

void kvc::sim::amdgcn::execWriteLane(Wave &wave, const Inst &inst) {
  const unsigned lane = scalar32(wave, inst.s[1]) & (wave.lanes - 1);
  wave.row(inst.d.first)[lane] = scalar32(wave, inst.s[0]);
}

/// How many bits of a mask are below a lane, plus a number.
void kvc::sim::amdgcn::execMbcnt(Wave &wave, const Inst &inst) {
  Scratch a, b, result;
  const uint32_t *bits = fetch(wave, inst, inst.s[0], a.rows), *plus = fetch(wave, inst, inst.s[1], b.rows);
  for (unsigned i = 0; i < wave.lanes; ++i) {
    const uint64_t below = (uint64_t(1) << i) - 1;
    const auto part = uint32_t(inst.operation == 0 ? below : below >> 32);
    result.rows[i] = uint32_t(std::popcount(bits[i] & part)) + plus[i];
  }
  writeRows(wave, inst, result.rows, wave.exec());
}

/// v_permlane16 (operation 0) and v_permlanex16 (1): lanes of a row of 16 by nibbles of two scalars; inst.immediate:
/// bit 0 also from inactive lanes, bit 1 zero for them.
void kvc::sim::amdgcn::execPermlane16(Wave &wave, const Inst &inst) {
  Scratch a, result;
  const uint32_t *from = fetch(wave, inst, inst.s[0], a.rows), *old = wave.row(inst.d.first);
  const uint64_t select = scalar32(wave, inst.s[1]) | (uint64_t(scalar32(wave, inst.s[2])) << 32);
  const uint64_t exec = wave.exec();
  for (unsigned i = 0; i < wave.lanes; ++i) {
    const unsigned row = (i & ~15u) ^ (inst.operation != 0 ? 16 : 0);
    const unsigned source = row | unsigned(select >> (4 * (i & 15)) & 15);
    const bool active = (inst.immediate & 1) || (exec >> source & 1);
    result.rows[i] = active ? from[source] : (inst.immediate & 2) ? 0 : old[i];
  }
  writeRows(wave, inst, result.rows, exec);
}

/// v_permlane32_swap and v_permlane16_swap: the odd groups of the first register change places with the even ones of
/// the second.
void kvc::sim::amdgcn::execPermlaneSwap(Wave &wave, const Inst &inst) {
  const unsigned width = inst.operation;
  uint32_t *a = wave.row(inst.d.first), *b = wave.row(inst.s[0].reg);
  const uint64_t exec = wave.exec();
  for (unsigned i = 0; i < wave.lanes; ++i) {
    if (!(i & width)) {
      const bool first = exec >> (i + width) & 1, second = exec >> i & 1;
      const uint32_t x = a[i + width], y = b[i];
      a[i + width] = first ? y : x;
      b[i] = second ? x : y;
    }
  }
}

void kvc::sim::amdgcn::execPermlane64(Wave &wave, const Inst &inst) {
  Scratch a, result;
  const uint32_t *from = fetch(wave, inst, inst.s[0], a.rows);
  for (unsigned i = 0; i < wave.lanes; ++i) {
    result.rows[i] = wave.lanes == 64 ? from[i ^ 32] : from[i];
  }
  writeRows(wave, inst, result.rows, wave.exec());
}

void kvc::sim::amdgcn::execSwap(Wave &wave, const Inst &inst) {
  uint32_t *a = wave.row(inst.d.first), *b = wave.row(inst.s[0].reg);
  eachLane(wave.exec(), [&](unsigned lane) { std::swap(a[lane], b[lane]); });
}

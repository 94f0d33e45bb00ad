//===- Matrix.cpp - MFMA and WMMA -----------------------------------------===//
//
// Products are summed in f32 (or 32-bit integers) in the order of k, with fused multiply-adds. Layouts: AMD's matrix
// instruction calculator.
//
//===----------------------------------------------------------------------===//
#include "amdgcn/Matrix.h"

#include "amdgcn/Decoder.h"
#include "common/Floats.h"

#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <tuple>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;
using Kind = TextOperand::Kind;

namespace {

unsigned bitsOf(Element e) {
  switch (e) {
  case Element::F32:
  case Element::I32:
    return 32;
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::I4:
  case Element::U4:
    return 4;
  default:
    return 8;
  }
}
bool isInteger(Element e) { return e >= Element::I8; }

/// The values of codes.
void toFloats(Element e, const uint32_t *codes, float *to, unsigned count, const Chip &chip) {
  switch (e) {
  case Element::F16:
    matrixLoops().halves(to, codes, count);
    break;
  case Element::BF16:
    for (unsigned i = 0; i < count; ++i) {
      to[i] = std::bit_cast<float>(codes[i] << 16);
    }
    break;
  case Element::Fp8:
  case Element::Bf8: {
    static const auto tables = [] {
      std::array<std::array<float, 256>, 4> made;
      for (unsigned format = 0; format < 4; ++format) {
        for (unsigned code = 0; code < 256; ++code) {
          made[format][code] = float(decodeFloat8(static_cast<Float8>(format), uint8_t(code)));
        }
      }
      return made;
    }();
    const Float8 format = e == Element::Fp8 ? (chip.fnuz() ? Float8::E4M3Fnuz : Float8::E4M3)
                                            : (chip.fnuz() ? Float8::E5M2Fnuz : Float8::E5M2);
    for (unsigned i = 0; i < count; ++i) {
      to[i] = tables[size_t(format)][codes[i]];
    }
    break;
  }
  default:
    std::memcpy(to, codes, size_t(count) * 4);
    break;
  }
  // CDNA2 takes zero for denormals of 16 bits.
  if (chip.family == Family::Cdna2 && bitsOf(e) == 16) {
    const uint32_t exponent = e == Element::F16 ? 0x7c00 : 0x7f80;
    for (unsigned i = 0; i < count; ++i) {
      to[i] = (codes[i] & exponent) == 0 ? std::copysign(0.0f, to[i]) : to[i];
    }
  }
}

void toIntegers(Element e, const uint32_t *codes, int32_t *to, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    to[i] = e == Element::I8   ? int32_t(int8_t(codes[i]))
            : e == Element::I4 ? int32_t(codes[i] << 28) >> 28
                               : int32_t(codes[i]);
  }
}

struct Place {
  unsigned block, row, column;
};

/// Where element `v` of a lane of A (or, with row for column, of B) lies: its row and its k.
Place placeOfInput(const MatrixShape &s, const Chip &chip, unsigned lane, unsigned v) {
  if (s.wmma) {
    if (chip.family == Family::Rdna3) {
      return {0, lane % 16, v};
    }
    // gfx12, 16 bits: lanes 0 to 15 and 16 to 31 take turns of four.
    const unsigned half = lane / 16 % 2;
    return {0, lane % 16, bitsOf(s.a) == 16 ? 8 * (v / 4) + 4 * half + v % 4 : s.perLane * half + v};
  }
  const unsigned group = lane / s.m;
  return s.blocks > 1 ? Place{group, lane % s.m, v} : Place{0, lane % s.m, s.perLane * group + v};
}

/// Where register `v` of a lane of D lies.
Place placeOfResult(const MatrixShape &s, const Chip &chip, unsigned lanes, unsigned lane, unsigned v) {
  if (s.wmma) {
    if (chip.family == Family::Rdna3) {
      return {0, lanes == 64 ? 4 * v + lane / 16 : 2 * v + lane / 16, lane % 16};
    }
    return {0, lanes == 64 ? v + 4 * (lane / 16) : v + 8 * (lane / 16), lane % 16};
  }
  if (s.m == 4) {
    return {lane / 4, v, lane % 4};
  }
  const unsigned each = s.m == 16 ? 4 : 16, group = lane / s.m, inner = v % each;
  const unsigned row = s.m == 16 ? 4 * group + inner : 8 * (inner / 4) + 4 * group + inner % 4;
  return {v / each, row, lane % s.m};
}

/// Gfx11 wants the rows of A and B in both halves of the wave.
void checkReplicated(const Wave &wave, const uint32_t *rows, unsigned count, const char *what) {
  for (unsigned r = 0; r < count; ++r) {
    for (unsigned lane = 16; lane < wave.lanes; ++lane) {
      if (rows[size_t(r) * rowLanes + lane] != rows[size_t(r) * rowLanes + lane % 16]) {
        fail(FaultKind::Race,
             "expects lanes 16 and above to repeat lanes 0 to 15 of {} in a matrix product, but lane {} "
             "does not",
             what, lane);
      }
    }
  }
}

/// The codes of A or B out of the lanes' registers.
void gather(const uint32_t *rows, Element e, unsigned perLane, const std::vector<uint16_t> &at, unsigned lanes,
            uint32_t *codes) {
  const unsigned bits = bitsOf(e), perRow = 32 / bits;
  const uint32_t part = bits == 32 ? ~0u : (1u << bits) - 1;
  for (unsigned v = 0; v < perLane; ++v) {
    const uint32_t *row = rows + size_t(v / perRow) * rowLanes;
    const unsigned shift = bits * (v % perRow);
    const uint16_t *to = at.data() + size_t(v) * lanes;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      codes[to[lane]] = row[lane] >> shift & part;
    }
  }
}

void execMatrix(Wave &wave, const Inst &inst) {
  const MatrixShape &s = *inst.shape;
  const Chip &chip = *programOf(wave).chip;
  if (!chip.cdna() && wave.exec() != wave.laneMask) {
    fail(FaultKind::Race, "expects all lanes of the wave in a matrix product, but got {:#x}", wave.exec());
  }
  const uint32_t *a = wave.row(inst.s[0].reg), *b = wave.row(inst.s[1].reg);
  if (s.wmma && chip.family == Family::Rdna3) {
    checkReplicated(wave, a, inst.s[0].dwords, "A");
    checkReplicated(wave, b, inst.s[1].dwords, "B");
  }
  const unsigned lanes = wave.lanes, size = s.m * s.n, aSize = s.blocks * s.m * s.k, bSize = s.blocks * s.k * s.n;
  alignas(64) uint32_t codes[matrixLimit], left[matrixLimit], right[matrixLimit], sums[matrixLimit];
  const auto isInt = isInteger(s.a);
  auto operand = [&](const uint32_t *rows, Element e, const std::vector<uint16_t> &at, uint32_t *to, unsigned count) {
    gather(rows, e, s.perLane, at, lanes, codes);
    if (isInt) {
      toIntegers(e, codes, reinterpret_cast<int32_t *>(to), count);
    } else {
      toFloats(e, codes, reinterpret_cast<float *>(to), count, chip);
    }
  };
  operand(a, s.a, s.aAt, left, aSize);
  operand(b, s.b, s.bAt, right, bSize);
  // gfx12 packs two halves into a register; gfx11 has one in each, in the half that op_sel says.
  const bool narrow = bitsOf(s.d) == 16, packed = narrow && chip.family == Family::Rdna4, high = inst.operation & 1;
  const Source &c = inst.s[2];
  for (unsigned v = 0; v < s.results; ++v) {
    const uint16_t *at = s.dAt.data() + size_t(v) * lanes;
    const bool upper = packed ? v % 2 != 0 : high;
    const uint32_t *row = c.kind == Source::Kind::Constant ? nullptr : wave.row(c.reg + (packed ? v / 2 : v));
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const uint32_t word = row ? row[lane] : uint32_t(c.value);
      sums[at[lane]] = !narrow ? word : (row && upper ? word >> 16 : word & 0xffff);
    }
  }
  if (narrow) {
    std::copy_n(sums, s.blocks * size, codes);
    toFloats(s.d, codes, reinterpret_cast<float *>(sums), s.blocks * size, chip);
  }
  for (unsigned block = 0; block < s.blocks; ++block) {
    uint32_t *acc = sums + block * size;
    const uint32_t *x = left + block * s.m * s.k, *y = right + block * s.k * s.n;
    if (isInt) {
      matrixLoops().integers(reinterpret_cast<int32_t *>(acc), reinterpret_cast<const int32_t *>(x),
                             reinterpret_cast<const int32_t *>(y), s.m, s.n, s.k);
    } else {
      matrixLoops().floats(reinterpret_cast<float *>(acc), reinterpret_cast<const float *>(x),
                           reinterpret_cast<const float *>(y), s.m, s.n, s.k);
    }
  }
  for (unsigned v = 0; v < s.results; ++v) {
    const uint16_t *at = s.dAt.data() + size_t(v) * lanes;
    uint32_t *row = wave.row(inst.d.first + (packed ? v / 2 : v));
    const bool upper = packed ? v % 2 != 0 : high;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const uint32_t value = sums[at[lane]];
      if (!narrow) {
        row[lane] = value;
        continue;
      }
      const auto sum = std::bit_cast<float>(value);
      const uint32_t code = s.d == Element::F16 ? floatToF16(sum) : floatToBf16(sum);
      row[lane] = upper ? (row[lane] & 0xffff) | (code << 16) : (row[lane] & 0xffff0000) | code;
    }
  }
}

/// Fills in where everything lies.
void layOut(MatrixShape &s, const Chip &chip, unsigned lanes) {
  s.aAt.resize(size_t(s.perLane) * lanes);
  s.bAt.resize(size_t(s.perLane) * lanes);
  s.dAt.resize(size_t(s.results) * lanes);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    for (unsigned v = 0; v < s.perLane; ++v) {
      const Place p = placeOfInput(s, chip, lane, v);
      s.aAt[v * lanes + lane] = uint16_t((p.block * s.m + p.row) * s.k + p.column);
      s.bAt[v * lanes + lane] = uint16_t((p.block * s.k + p.column) * s.n + p.row);
    }
    for (unsigned v = 0; v < s.results; ++v) {
      const Place p = placeOfResult(s, chip, lanes, lane, v);
      s.dAt[v * lanes + lane] = uint16_t((p.block * s.m + p.row) * s.n + p.column);
    }
  }
}

// Decoding ------------------------------------------------------------------------------------------------------------

bool elementOf(std::string_view name, Element &to) {
  static constexpr std::pair<std::string_view, Element> names[] = {
      {"f16", Element::F16}, {"bf16", Element::BF16}, {"f32", Element::F32},
      {"fp8", Element::Fp8}, {"bf8", Element::Bf8},   {"i8", Element::I8},
      {"iu8", Element::U8},  {"iu4", Element::U4},    {"i32", Element::I32}};
  for (const auto &[text, element] : names) {
    if (text == name) {
      to = element;
      return true;
    }
  }
  return false;
}

/// Reads "16x16x16", with what is behind it.
bool readSizes(std::string_view &text, MatrixShape &shape) {
  unsigned *const sizes[] = {&shape.m, &shape.n, &shape.k};
  for (unsigned i = 0; i < 3; ++i) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), *sizes[i]);
    if (result.ec != std::errc()) {
      return false;
    }
    text.remove_prefix(size_t(result.ptr - text.data()));
    if (i < 2) {
      if (!text.starts_with('x')) {
        return false;
      }
      text.remove_prefix(1);
    }
  }
  return true;
}

/// Multiply-adds of a pass.
unsigned rateOf(const Chip &chip, const MatrixShape &s) {
  const bool old = chip.family == Family::Cdna2 || s.blocks > 1;
  switch (s.a) {
  case Element::F32:
    return 128;
  case Element::F16:
  case Element::BF16:
    return old ? (s.perLane == 2 ? 256 : 512) : s.perLane == 8 ? 2048 : 1024;
  default:
    return old ? 512 : s.perLane == 16 ? 4096 : 2048;
  }
}

/// The shape with its layout: one for all instructions of a kind, for good.
const MatrixShape *keep(MatrixShape s, const Chip &chip, unsigned lanes) {
  const auto key = std::tuple(chip.family, lanes, s.wmma, s.m, s.n, s.k, s.blocks, s.a, s.b, s.d, s.perLane);
  static std::mutex mutex;
  static std::map<std::remove_const_t<decltype(key)>, MatrixShape> shapes;
  std::lock_guard lock(mutex);
  auto [found, isNew] = shapes.try_emplace(key);
  if (isNew) {
    layOut(s, chip, lanes);
    found->second = std::move(s);
  }
  return &found->second;
}

} // namespace

bool kvc::sim::amdgcn::decodeMatrix(Decoder &decoder) {
  std::string_view rest = decoder.text.name;
  MatrixShape shape;
  shape.wmma = rest.starts_with("v_wmma_");
  if (!shape.wmma && !rest.starts_with("v_mfma_")) {
    return false;
  }
  rest.remove_prefix(7);
  const Chip &chip = *decoder.program.chip;
  const size_t bar = rest.find('_');
  if (!elementOf(rest.substr(0, bar), shape.d)) {
    return false;
  }
  rest.remove_prefix(bar + 1);
  if (!readSizes(rest, shape)) {
    return false;
  }
  // "16x16x4_4b_f16": the number of blocks follows from the registers.
  for (std::string_view blocks : {"_16b", "_4b", "_2b"}) {
    if (rest.starts_with(blocks)) {
      rest.remove_prefix(blocks.size());
    }
  }
  if (rest.ends_with("_1k")) {
    rest.remove_suffix(3);
  }
  if (rest.starts_with('_')) {
    rest.remove_prefix(1);
  }
  const size_t second = rest.find('_');
  if (!elementOf(rest.substr(0, second), shape.a) ||
      !elementOf(second == std::string_view::npos ? rest : rest.substr(second + 1), shape.b)) {
    return false;
  }
  Inst &inst = decoder.inst;
  const unsigned waveSize = decoder.program.waveSize;
  const TextOperand &d = decoder.operand(0), &a = decoder.operand(1), &b = decoder.operand(2), &c = decoder.operand(3);
  auto vector = [&](const TextOperand &from) {
    if (from.kind != Kind::Vector || from.neg || from.abs) {
      decoder.unsupported("operand " + from.text);
    }
    Source source;
    source.kind = Source::Kind::Vector;
    source.reg = from.reg;
    source.dwords = from.dwords;
    decoder.reads(source);
    inst.s[inst.sources++] = source;
  };
  vector(a);
  vector(b);
  shape.perLane = a.dwords * 32 / bitsOf(shape.a);
  if (a.dwords != b.dwords || bitsOf(shape.a) != bitsOf(shape.b)) {
    decoder.unsupported("matrices of different widths");
  }
  if (!shape.wmma) {
    const unsigned held = shape.perLane * (waveSize / shape.m);
    shape.blocks = held / shape.k;
    if (held % shape.k != 0 || (shape.blocks != 1 && shape.blocks != waveSize / shape.m) || shape.m != shape.n ||
        (shape.m != 4 && shape.m != 16 && shape.m != 32) || (shape.m == 4 && shape.blocks == 1)) {
      decoder.unsupported("a matrix product of these sizes");
    }
    shape.passes = std::max(2u, unsigned(shape.macs() / rateOf(chip, shape)));
    shape.isXdl = shape.a != Element::F32;
  } else {
    const bool fits = shape.m == 16 && shape.n == 16 && waveSize == 32 &&
                      shape.perLane == (chip.family == Family::Rdna3 ? shape.k : shape.k / 2);
    if (!fits) {
      decoder.unsupported("a matrix product of these sizes in a wave of this size");
    }
  }
  shape.results = shape.m * shape.n * shape.blocks / waveSize;
  const bool packed = chip.family == Family::Rdna4 && bitsOf(shape.d) == 16;
  const unsigned registers = packed ? shape.results / 2 : shape.results;
  decoder.setVectorDestination(d, registers);
  if (c.kind == Kind::Vector) {
    vector(c);
    if (c.dwords != registers) {
      decoder.unsupported("operand " + c.text);
    }
  } else {
    inst.s[inst.sources++] = decoder.makeSource(c, shape.d == Element::F16   ? Type::F16
                                                   : shape.d == Element::I32 ? Type::B32
                                                                             : Type::F32);
  }
  for (const char *name : {"cbsz", "abid", "blgp"}) {
    if (decoder.number(name) != 0) {
      decoder.unsupported(fmt::format("modifier {}", name));
    }
  }
  const auto negLo = decoder.list("neg_lo"), negHi = decoder.list("neg_hi"), sel = decoder.list("op_sel");
  auto bit = [](const std::vector<int64_t> &list, size_t i) { return i < list.size() && list[i] != 0; };
  if (shape.a == Element::U8 || shape.a == Element::U4) {
    // For integers neg_lo says which of A and B are signed.
    shape.a = bit(negLo, 0) ? (shape.a == Element::U8 ? Element::I8 : Element::I4) : shape.a;
    shape.b = bit(negLo, 1) ? (shape.b == Element::U8 ? Element::I8 : Element::I4) : shape.b;
  } else if (bit(negLo, 0) || bit(negLo, 1) || bit(negLo, 2)) {
    decoder.unsupported("modifier neg_lo");
  }
  if (bit(negHi, 0) || bit(negHi, 1) || bit(negHi, 2)) {
    decoder.unsupported("modifier neg_hi");
  }
  inst.operation = bit(sel, 2);
  if (bitsOf(shape.d) == 16) {
    decoder.reads(inst.d);
  }
  inst.exec = execMatrix;
  inst.kind = Class::Matrix;
  if (std::max({shape.blocks * shape.m * shape.k, shape.blocks * shape.m * shape.n}) > matrixLimit) {
    decoder.unsupported("a matrix product of these sizes");
  }
  inst.shape = keep(shape, chip, waveSize);
  decoder.checkModifiers();
  return true;
}

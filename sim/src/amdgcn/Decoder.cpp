//===- Decoder.cpp - From text to instructions ----------------------------===//
#include "amdgcn/Decoder.h"

#include "common/Floats.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;
using Kind = TextOperand::Kind;

std::string_view kvc::sim::amdgcn::nameOf(Class kind) {
  static constexpr std::string_view names[] = {
      "scalar", "scalar load", "branch",   "vector",    "packed",     "transcendental", "cross-lane", "matrix", "load",
      "store",  "atomic",      "LDS read", "LDS write", "LDS atomic", "barrier",        "wait",       "other"};
  static_assert(std::size(names) == size_t(Class::Count));
  return names[size_t(kind)];
}

// Operands ------------------------------------------------------------------------------------------------------------

void Decoder::unsupported(std::string_view what) const {
  fail(FaultKind::Unsupported, "expects an instruction that the simulator knows, but got {}", what);
}

const TextOperand &Decoder::operand(size_t i) const {
  if (i >= text.operands.size()) {
    unsupported("too few operands");
  }
  return text.operands[i];
}

bool Decoder::has(std::string_view modifier) {
  used.emplace(modifier);
  return text.modifier(modifier) != nullptr;
}

int64_t Decoder::number(std::string_view modifier, int64_t otherwise) {
  used.emplace(modifier);
  const std::string *value = text.modifier(modifier);
  if (!value) {
    return otherwise;
  }
  const auto result = integerOf(*value);
  if (!result) {
    unsupported(fmt::format("modifier {}:{}", modifier, *value));
  }
  return *result;
}

std::vector<int64_t> Decoder::list(std::string_view modifier) {
  used.emplace(modifier);
  const std::string *value = text.modifier(modifier);
  return value ? numbersOf(*value) : std::vector<int64_t>();
}

void Decoder::checkModifiers() const {
  for (const auto &[name, value] : text.modifiers) {
    if (!used.count(name)) {
      unsupported(fmt::format("modifier {}{}{}", name, value.empty() ? "" : ":", value));
    }
  }
}

static uint64_t floatConstant(const TextOperand &from, Type type) {
  const bool inverse2Pi = from.text.find("0.15915494") != std::string::npos;
  const double x = from.number;
  switch (type) {
  case Type::F16:
  case Type::I16:
  case Type::H2:
  case Type::S2:
    return inverse2Pi ? 0x3118 : floatToF16(float(x));
  case Type::BF16:
    return inverse2Pi ? 0x3e23 : floatToBf16(float(x));
  case Type::F64:
  case Type::B64:
    return inverse2Pi ? 0x3fc45f306dc9c882 : std::bit_cast<uint64_t>(x);
  default: {
    const uint64_t bits = inverse2Pi ? 0x3e22f983 : std::bit_cast<uint32_t>(float(x));
    return type == Type::F2 ? bits | (bits << 32) : bits;
  }
  }
}

static uint64_t integerConstant(const TextOperand &from, Type type) {
  const bool literal = from.text.find("0x") != std::string::npos;
  const auto value = uint64_t(from.integer);
  switch (type) {
  case Type::F64:
    // A literal is the upper half.
    return literal && value <= 0xffffffff ? value << 32 : value;
  case Type::B64:
    return value;
  case Type::F2:
    return (value & 0xffffffff) | (value << 32);
  case Type::F16:
  case Type::I16:
  case Type::BF16:
    return value & 0xffff;
  default:
    return value & 0xffffffff;
  }
}

Source Decoder::makeSource(const TextOperand &from, Type type) {
  Source source;
  source.type = type;
  source.dwords = uint8_t(dwordsOf(type));
  source.neg = from.neg;
  source.abs = from.abs;
  source.sext = from.sext;
  source.modified = from.neg || from.abs || from.sext;
  switch (from.kind) {
  case Kind::Vector:
  case Kind::Scalar:
    if (from.dwords != source.dwords && !(from.reg == sreg::Null && from.kind == Kind::Scalar)) {
      unsupported(fmt::format("operand {} of {} registers where {} fit", from.text, from.dwords, source.dwords));
    }
    if (from.kind == Kind::Scalar && (from.reg == sreg::Vccz || from.reg == sreg::Execz)) {
      unsupported("operand " + from.text);
    }
    source.kind = from.kind == Kind::Vector ? Source::Kind::Vector : Source::Kind::Scalar;
    source.reg = from.reg;
    if (from.half == 1) {
      source.hi = source.modified = true;
    }
    return source;
  case Kind::Integer:
  case Kind::Float: {
    source.kind = Source::Kind::Constant;
    source.value = from.kind == Kind::Float ? floatConstant(from, type) : integerConstant(from, type);
    auto [found, isNew] = constants.emplace(std::pair(source.value, source.dwords), uint32_t(program.constants.size()));
    if (isNew) {
      for (unsigned d = 0; d < source.dwords; ++d) {
        program.constants.insert(program.constants.end(), rowLanes, uint32_t(source.value >> (32 * d)));
      }
    }
    source.row = found->second;
    return source;
  }
  case Kind::Off:
  case Kind::Word:
    break;
  }
  unsupported("operand " + from.text);
}

void Decoder::reads(const Source &source) {
  if (source.kind == Source::Kind::Vector || (source.kind == Source::Kind::Scalar && source.reg != sreg::Null)) {
    inst.reads.push_back({source.reg, source.dwords, source.kind == Source::Kind::Vector});
  }
}

void Decoder::addSource(const TextOperand &from, Type type) {
  if (inst.sources >= std::size(inst.s)) {
    unsupported("too many operands");
  }
  inst.s[inst.sources] = makeSource(from, type);
  reads(inst.s[inst.sources++]);
}

void Decoder::setVectorDestination(const TextOperand &from, unsigned dwords) {
  if (from.kind != Kind::Vector || from.dwords != dwords || from.neg || from.abs) {
    unsupported(fmt::format("destination {} where {} vector registers fit", from.text, dwords));
  }
  inst.d = {from.reg, uint8_t(dwords), true};
  writes(inst.d);
}

void Decoder::setScalarDestination(const TextOperand &from, unsigned dwords) {
  if (from.kind != Kind::Scalar || (from.dwords != dwords && from.reg != sreg::Null)) {
    unsupported(fmt::format("destination {} where {} scalar registers fit", from.text, dwords));
  }
  inst.d = {from.reg, uint8_t(dwords), false};
  if (from.reg != sreg::Null) {
    writes(inst.d);
  }
}

uint16_t Decoder::maskRegister(const TextOperand &from) const {
  if (from.kind != Kind::Scalar || (from.reg != sreg::Null && from.dwords != program.waveSize / 32)) {
    unsupported(fmt::format("mask {} in a wave of {} lanes", from.text, program.waveSize));
  }
  return from.reg;
}

// Vector instructions -------------------------------------------------------------------------------------------------

static bool isPair(Type type) { return type == Type::H2 || type == Type::S2 || type == Type::F2; }
static bool isHalf(Type type) { return type == Type::F16 || type == Type::I16 || type == Type::BF16; }

void Decoder::packedModifiers(const LaneRow &row) {
  const bool mixed = row.flags & Mixed;
  const auto sel = list("op_sel"), selHi = list("op_sel_hi"), negLo = list("neg_lo"), negHi = list("neg_hi");
  for (unsigned k = 0; k < inst.sources; ++k) {
    Source &s = inst.s[k];
    auto bit = [&](const std::vector<int64_t> &values, bool otherwise) {
      return k < values.size() ? values[k] != 0 : otherwise;
    };
    if (mixed) {
      s.sel = bit(sel, false);
      s.selHi = bit(selHi, false);
      s.neg = bit(negLo, s.neg);
      s.negHi = bit(negHi, s.abs);
      s.modified = true;
    } else if (isPair(s.type)) {
      s.sel = bit(sel, false);
      s.selHi = bit(selHi, true);
      s.neg = bit(negLo, false);
      s.negHi = bit(negHi, false);
      s.modified = s.sel || !s.selHi || s.neg || s.negHi;
      if (s.abs || s.sext) {
        unsupported("an absolute value in a packed operation");
      }
    } else {
      if (bit(negLo, false) || bit(negHi, false)) {
        s.neg ^= bit(negLo, false);
        s.abs |= bit(negHi, false);
        s.modified = true;
      }
      if (bit(sel, false)) {
        if (!isHalf(s.type) && !(s.type == Type::B32 && row.name.starts_with("v_cvt"))) {
          unsupported("op_sel of an operand of 32 bits");
        }
        s.hi = s.modified = true;
      }
    }
  }
}

void Decoder::permutation() {
  const bool wave64 = program.waveSize == 64;
  Permutation p;
  bool found = false;
  auto fill = [&](auto from) {
    found = true;
    for (unsigned i = 0; i < rowLanes; ++i) {
      const int source = from(int(i));
      p.from[i] = int8_t(source >= int(program.waveSize) ? -1 : source);
    }
  };
  if (const auto perm = list("quad_perm"); perm.size() == 4) {
    fill([&](int i) { return (i & ~3) | int(perm[size_t(i & 3)]); });
  }
  if (const auto perm = list("dpp8"); perm.size() == 8) {
    fill([&](int i) { return (i & ~7) | int(perm[size_t(i & 7)]); });
  }
  const std::pair<const char *, int (*)(int, int)> numbered[] = {
      {"row_shl", [](int i, int n) { return (i & 15) + n < 16 ? i + n : -1; }},
      {"row_shr", [](int i, int n) { return (i & 15) >= n ? i - n : -1; }},
      {"row_ror", [](int i, int n) { return (i & ~15) | ((i - n) & 15); }},
      {"row_share", [](int i, int n) { return (i & ~15) | n; }},
      {"row_newbcast", [](int i, int n) { return (i & ~15) | n; }},
      {"row_xmask", [](int i, int n) { return i ^ n; }},
      {"row_bcast", [](int i, int n) { return n == 15   ? (i / 16) * 16 - 1
                                              : i >= 32 ? 31
                                                        : -1; }},
      {"wave_shl", [](int i, int n) { return i + n < 64 ? i + n : -1; }},
      {"wave_shr", [](int i, int n) { return i - n; }},
      {"wave_rol", [](int i, int n) { return (i + n) & 63; }},
      {"wave_ror", [](int i, int n) { return (i - n) & 63; }},
  };
  for (const auto &[name, from] : numbered) {
    if (has(name)) {
      const int n = int(number(name));
      if (!wave64 && std::string_view(name).starts_with("wave")) {
        unsupported("a shift of a whole wave in a wave of 32 lanes");
      }
      fill([&](int i) { return from(i, n); });
    }
  }
  if (has("row_mirror")) {
    fill([](int i) { return i ^ 15; });
  }
  if (has("row_half_mirror")) {
    fill([](int i) { return i ^ 7; });
  }
  if (!found) {
    if (text.encoding.find("dpp") != std::string::npos) {
      unsupported("a lane permutation that the simulator does not know");
    }
    return;
  }
  const auto rowMask = unsigned(number("row_mask", 15)), bankMask = unsigned(number("bank_mask", 15));
  p.enabled = 0;
  for (unsigned i = 0; i < rowLanes; ++i) {
    p.enabled |= uint64_t((rowMask >> (i / 16) & 1) && (bankMask >> (i / 4 % 4) & 1)) << i;
  }
  p.zeroInvalid = has("bound_ctrl");
  p.readsInactive = number("fi") != 0;
  inst.permutation = std::make_shared<const Permutation>(p);
}

void Decoder::sdwa() {
  static constexpr std::string_view selects[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  auto select = [&](std::string_view modifier) -> uint8_t {
    used.emplace(modifier);
    const std::string *value = text.modifier(modifier);
    if (!value) {
      return Dword;
    }
    const auto found = std::find(std::begin(selects), std::end(selects), *value);
    if (found == std::end(selects)) {
      unsupported(fmt::format("modifier {}:{}", modifier, *value));
    }
    return uint8_t(found - std::begin(selects));
  };
  static constexpr std::string_view names[] = {"src0_sel", "src1_sel"};
  for (unsigned k = 0; k < 2 && k < inst.sources; ++k) {
    inst.s[k].sdwa = select(names[k]);
    inst.s[k].modified |= inst.s[k].sdwa != Dword;
  }
  inst.sdwaSelect = select("dst_sel");
  static constexpr std::string_view kinds[] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"};
  used.emplace("dst_unused");
  if (const std::string *value = text.modifier("dst_unused")) {
    inst.sdwaUnused = SdwaUnused(std::find(std::begin(kinds), std::end(kinds), *value) - std::begin(kinds));
  }
  if (inst.sdwaSelect != Dword) {
    inst.merge = Merge::Sdwa;
    reads(inst.d);
  }
}

/// The byte that op_sel says of gfx950's conversions of codes with a scale: of fp4 pairs and of single codes, the words
/// of fp8 pairs are upper halves. True where op_sel is not about the destination.
bool Decoder::scaledCodes() {
  const std::string_view rest = text.name;
  const auto sel = list("op_sel");
  auto byteOf = [&](size_t first) {
    auto bit = [&](size_t i) { return i < sel.size() && sel[i] != 0; };
    return uint8_t(Byte0 + bit(first) + 2 * bit(first + 1));
  };
  const bool pair = rest.find("_pk_") != std::string_view::npos;
  if (rest.ends_with("_fp4") || (!pair && rest.ends_with("8"))) {
    inst.s[0].sdwa = byteOf(0);
    inst.s[0].modified = true;
    return pair;
  }
  if (rest.find("_fp4_") != std::string_view::npos) {
    inst.sdwaSelect = byteOf(2);
    inst.sdwaUnused = SdwaUnused::Preserve;
    inst.merge = Merge::Sdwa;
    reads(inst.d);
    return true;
  }
  if (rest.ends_with("8") && !sel.empty() && sel[0] != 0) {
    inst.s[0].hi = inst.s[0].modified = true;
  }
  return false;
}

void Decoder::results(const LaneRow &row, bool highDestination) {
  inst.clamp = has("clamp");
  if (has("mul")) {
    inst.omod = number("mul") == 2 ? 1 : 2;
  }
  if (has("div")) {
    inst.omod = 3;
  }
  const bool isFloat =
      row.d == Type::F16 || row.d == Type::F32 || row.d == Type::F64 || row.d == Type::H2 || row.d == Type::F2;
  if (inst.clamp && !isFloat) {
    if (!row.saturating) {
      unsupported("clamp");
    }
    inst.lane = row.saturating;
    inst.clamp = false;
  }
  if (inst.omod != 0 && !isFloat) {
    unsupported("an output modifier of an integer");
  }
  if (isHalf(row.d) && inst.merge == Merge::Whole) {
    const bool high = highDestination || row.name == "v_fma_mixhi_f16";
    const bool keeps = !program.chip->cdna() || (row.flags & KeepsUpperHalf);
    inst.merge = high ? Merge::High : keeps && text.encoding != "sdwa" ? Merge::Low : Merge::Whole;
    if (inst.merge != Merge::Whole) {
      reads(inst.d);
    }
  } else if (highDestination) {
    unsupported("a destination in the upper half");
  }
  inst.finished = inst.omod == 0 && !inst.clamp && inst.merge == Merge::Whole;
}

bool Decoder::decodeVector() {
  std::string name = text.name;
  const bool dual = name.starts_with("v_dual_");
  if (dual) {
    name = "v_" + name.substr(7);
  }
  if (program.chip->fnuz() && findLaneRow(name + "#fnuz")) {
    name += "#fnuz";
  }
  // For products of integers neg_lo says which operands are signed.
  const bool mixedSigns = name == "v_dot4_i32_iu8" || name == "v_dot8_i32_iu4";
  if (mixedSigns) {
    const auto isSigned = list("neg_lo");
    const bool a = isSigned.size() > 0 && isSigned[0], b = isSigned.size() > 1 && isSigned[1];
    name += a && b ? "#ab" : a ? "#a" : b ? "#b" : "";
  }
  const LaneRow *row = findLaneRow(name);
  if (!row) {
    return false;
  }
  inst.row = row;
  inst.lane = row->fn;
  inst.exec = execLanes;
  inst.dType = row->d;
  inst.kind = row->flags & Transcendental ? Class::Transcendental : isPair(row->d) ? Class::Packed : Class::Vector;
  size_t next = 0;
  bool highDestination = false;
  if (row->flags & ResultIsMask) {
    const bool writesExecOnly = (row->flags & WritesExec) && !program.chip->cdna();
    if (!writesExecOnly) {
      inst.maskOut = maskRegister(operand(next++));
    }
  } else {
    highDestination = operand(next).half == 1;
    setVectorDestination(operand(next++), dwordsOf(row->d));
    if (row->flags & MaskOut) {
      inst.maskOut = maskRegister(operand(next++));
    }
  }
  if (inst.maskOut != sreg::Null) {
    writes(maskRange(inst.maskOut));
  }
  for (unsigned k = 0; k < 3 && row->s[k] != Type::None; ++k) {
    if ((row->flags & Accumulates) && (k == 2 || row->s[k + 1] == Type::None) && next >= operandCount()) {
      addSource(operand(0), row->s[k]);
      continue;
    }
    addSource(operand(next++), row->s[k]);
  }
  if (row->flags & MaskInVcc) {
    inst.maskIn = sreg::Vcc;
  } else if (row->flags & MaskIn) {
    inst.maskIn = next < operandCount() ? maskRegister(operand(next++)) : uint16_t(sreg::Vcc);
  }
  if (inst.maskIn != sreg::Null) {
    reads(maskRange(inst.maskIn));
  }
  if (next != operandCount()) {
    unsupported("operand " + operand(next).text);
  }
  bool selectsCodes = false;
  if (name.starts_with("v_cvt_scalef32_")) {
    selectsCodes = scaledCodes();
  } else if (!mixedSigns) {
    packedModifiers(*row);
  }
  if (const auto sel = list("op_sel"); sel.size() > inst.sources && sel.back() != 0 && !selectsCodes) {
    highDestination = true;
  }
  inst.immediate = number("bitop3");
  if (has("byte_sel")) {
    inst.s[0].sdwa = uint8_t(number("byte_sel"));
    inst.s[0].modified = true;
  }
  if (text.encoding == "sdwa") {
    sdwa();
  }
  permutation();
  results(*row, highDestination);
  checkModifiers();
  if (!text.second.empty()) {
    inst.second = std::make_shared<Inst>();
    inst.second->index = inst.index;
    Decoder(program, text.second[0], *inst.second, constants).run();
    if (inst.second->exec != execLanes || inst.maskOut != sreg::Null || inst.second->maskOut != sreg::Null) {
      unsupported("a dual instruction with masks");
    }
    inst.exec = execDual;
    inst.reads.insert(inst.reads.end(), inst.second->reads.begin(), inst.second->reads.end());
    inst.writes.insert(inst.writes.end(), inst.second->writes.begin(), inst.second->writes.end());
  }
  return true;
}

bool Decoder::decodeCrossLane() {
  const std::string &name = text.name;
  auto lane = [&](ExecFn exec) {
    inst.exec = exec;
    inst.kind = Class::Lane;
  };
  if (name == "v_readfirstlane_b32" || name == "v_readlane_b32") {
    const bool first = name == "v_readfirstlane_b32";
    lane(first ? execReadFirstLane : execReadLane);
    setScalarDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    if (!first) {
      addSource(operand(2), Type::B32);
    }
    return true;
  }
  if (name == "v_writelane_b32") {
    lane(execWriteLane);
    setVectorDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    addSource(operand(2), Type::B32);
    if (inst.s[0].kind == Source::Kind::Vector) {
      unsupported("operand " + operand(1).text);
    }
    reads(inst.d);
    return true;
  }
  if (name == "v_mbcnt_lo_u32_b32" || name == "v_mbcnt_hi_u32_b32") {
    lane(execMbcnt);
    inst.operation = name == "v_mbcnt_hi_u32_b32";
    setVectorDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    addSource(operand(2), Type::B32);
    return true;
  }
  if (name == "v_permlane16_b32" || name == "v_permlanex16_b32") {
    lane(execPermlane16);
    inst.operation = name == "v_permlanex16_b32";
    setVectorDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    addSource(operand(2), Type::B32);
    addSource(operand(3), Type::B32);
    reads(inst.d);
    const auto sel = list("op_sel");
    inst.immediate = (sel.size() > 0 && sel[0] ? 1 : 0) | (sel.size() > 1 && sel[1] ? 2 : 0);
    return true;
  }
  if (name == "v_permlane32_swap_b32" || name == "v_permlane16_swap_b32" || name == "v_swap_b32") {
    lane(name == "v_swap_b32" ? execSwap : execPermlaneSwap);
    inst.operation = name == "v_permlane32_swap_b32" ? 32 : 16;
    setVectorDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    reads(inst.d);
    writes({inst.s[0].reg, 1, true});
    return true;
  }
  if (name.starts_with("v_s_")) {
    const LaneRow *row = findLaneRow("v_" + name.substr(4));
    if (!row || !(row->flags & Transcendental)) {
      return false;
    }
    inst.exec = execScalarLanes;
    inst.kind = Class::Transcendental;
    inst.row = row;
    inst.lane = row->fn;
    setScalarDestination(operand(0), 1);
    addSource(operand(1), row->s[0]);
    return true;
  }
  if (name == "v_permlane64_b32") {
    lane(execPermlane64);
    setVectorDestination(operand(0), 1);
    addSource(operand(1), Type::B32);
    return true;
  }
  return false;
}

void Decoder::run() {
  if (decodeCrossLane()) {
    checkModifiers();
    return;
  }
  if (decodeVector() || decodeScalar(*this) || decodeControl(*this) || decodeMemory(*this) || decodeLds(*this) ||
      decodeMatrix(*this)) {
    return;
  }
  unsupported(text.name == "unknown" ? "bytes that are none" : text.name);
}

// Kernels -------------------------------------------------------------------------------------------------------------

int32_t Program::indexOf(uint64_t address) const {
  const auto found = std::lower_bound(source.begin(), source.end(), address,
                                      [](const TextInst &inst, uint64_t at) { return inst.address < at; });
  return found != source.end() && found->address == address ? int32_t(found - source.begin()) : -1;
}

std::string kvc::sim::amdgcn::describe(const Program &program, uint32_t index) {
  const TextInst &text = program.source[index];
  return fmt::format("{}: {}+{:#x}: `{}`", program.object->name, program.name, text.address - program.kernel->entry,
                     text.text);
}
std::string kvc::sim::amdgcn::describe(const Program &program, const Inst &inst) {
  return describe(program, inst.index);
}

static uint16_t hazardsOf(const Inst &inst, const TextInst &text) {
  uint16_t flags = 0;
  if (text.name.starts_with("v_") && inst.kind != Class::Matrix) {
    flags |= IsVector;
  }
  if (inst.kind == Class::Transcendental) {
    flags |= IsTranscendental;
  }
  if (inst.permutation) {
    flags |= ReadsByDpp;
  }
  if (inst.kind == Class::Load || inst.kind == Class::Store || inst.kind == Class::Atomic) {
    flags |= ReadsScalarAddress;
  }
  // Buffers with a scalar offset take their data at once.
  if (inst.kind == Class::Store && inst.bytes > 8 &&
      (inst.exec != execBuffer || inst.s[ScalarSource].kind != Source::Kind::Scalar)) {
    flags |= StoresWide;
  }
  if (inst.kind == Class::Load && (inst.flags & ToLds)) {
    flags |= LoadsToLds;
  }
  if (inst.kind == Class::Scalar && !inst.d.vector && inst.d.count != 0 && inst.d.first == sreg::M0) {
    flags |= WritesM0;
  }
  if (text.name == "v_permlane32_swap_b32" || text.name == "v_permlane16_swap_b32") {
    flags |= SwapsLanes;
  }
  for (std::string_view memory : {"ds_", "global_", "flat_", "scratch_", "buffer_"}) {
    flags |= text.name.starts_with(memory) ? WaitsForVector : 0;
  }
  if (text.name == "s_waitcnt_depctr") {
    // By name, or in the upper four bits of a number.
    const std::string *count = text.modifier("depctr_va_vdst");
    if (count ? *count == "0" : !text.operands.empty() && (inst.immediate & 0xf000) == 0) {
      flags |= WaitsForVector;
    }
  }
  if (inst.row && (inst.row->flags & MaskInVcc)) {
    flags |= ReadsVccScale;
  }
  if (text.name == "v_readlane_b32" || text.name == "v_writelane_b32") {
    flags |= ReadsLaneNumber | MovesLane;
  }
  if (text.name == "v_readfirstlane_b32") {
    flags |= MovesLane;
  }
  if (inst.merge == Merge::High ||
      (inst.merge == Merge::Sdwa && (text.encoding == "sdwa" || inst.sdwaSelect >= Byte2))) {
    flags |= WritesPart;
  }
  return flags;
}

/// Decodes again to tell what is wrong: only what runs has to be known.
static void execUnknown(Wave &wave, const Inst &inst) {
  Program copy;
  const Program &program = programOf(wave);
  copy.chip = program.chip;
  copy.kernel = program.kernel;
  copy.object = program.object;
  copy.waveSize = program.waveSize;
  copy.source = program.source;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants;
  Inst again;
  Decoder(copy, program.source[inst.index], again, constants).run();
}

std::unique_ptr<Program> kvc::sim::amdgcn::decodeKernel(const CodeObject &object, const KernelInfo &kernel,
                                                        uint64_t base) {
  auto program = std::make_unique<Program>();
  program->name = kernel.name;
  program->object = &object;
  program->kernel = &kernel;
  program->chip = object.chip;
  program->waveSize = kernel.waveSize;
  program->base = base;
  program->source = disassemble(object, kernel);
  program->code.resize(program->source.size());
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants;
  for (uint32_t i = 0; i < program->code.size(); ++i) {
    Inst &inst = program->code[i];
    inst.index = i;
    try {
      Decoder(*program, program->source[i], inst, constants).run();
    } catch (const Fault &) {
      inst = Inst();
      inst.index = i;
      inst.exec = execUnknown;
      continue;
    }
    inst.hazards = hazardsOf(inst, program->source[i]);
    // Sums of floats and values that come back depend on the order.
    const auto op = static_cast<AtomicOp>(inst.operation);
    const bool global = inst.kind == Class::Atomic;
    program->ordered |= global && ((inst.flags & ReturnsOld) || op == AtomicOp::FAdd || op == AtomicOp::PkAddF16 ||
                                   op == AtomicOp::PkAddBF16 || op == AtomicOp::Swap || op == AtomicOp::CmpSwap);
  }
  return program;
}

//===- DecodeMemory.cpp - Instructions that access memory -----------------===//
#include "amdgcn/Decoder.h"

#include <algorithm>

using namespace kvc::sim;
using namespace kvc::sim::amdgcn;
using Kind = TextOperand::Kind;

namespace {

/// What is loaded or stored, by the end of the name.
struct Width {
  std::string_view name;
  uint16_t bytes;
  uint32_t flags;
};
constexpr Width widths[] = {
    {"ubyte", 1, 0},
    {"sbyte", 1, SignExtend},
    {"ushort", 2, 0},
    {"sshort", 2, SignExtend},
    {"dword", 4, 0},
    {"dwordx2", 8, 0},
    {"dwordx3", 12, 0},
    {"dwordx4", 16, 0},
    {"ubyte_d16", 1, D16},
    {"ubyte_d16_hi", 1, D16High},
    {"sbyte_d16", 1, SignExtend | D16},
    {"sbyte_d16_hi", 1, SignExtend | D16High},
    {"short_d16", 2, D16},
    {"short_d16_hi", 2, D16High},
    {"byte", 1, 0},
    {"short", 2, 0},
    {"byte_d16_hi", 1, D16High},
    {"u8", 1, 0},
    {"i8", 1, SignExtend},
    {"u16", 2, 0},
    {"i16", 2, SignExtend},
    {"b8", 1, 0},
    {"b16", 2, 0},
    {"b32", 4, 0},
    {"b64", 8, 0},
    {"b96", 12, 0},
    {"b128", 16, 0},
    {"d16_u8", 1, D16},
    {"d16_hi_u8", 1, D16High},
    {"d16_i8", 1, SignExtend | D16},
    {"d16_hi_i8", 1, SignExtend | D16High},
    {"d16_b16", 2, D16},
    {"d16_hi_b16", 2, D16High},
    {"d16_hi_b8", 1, D16High},
    {"u8_d16", 1, D16},
    {"u8_d16_hi", 1, D16High},
    {"i8_d16", 1, SignExtend | D16},
    {"i8_d16_hi", 1, SignExtend | D16High},
    {"u16_d16", 2, D16},
    {"u16_d16_hi", 2, D16High},
    {"b8_d16_hi", 1, D16High},
    {"b16_d16_hi", 2, D16High},
};
const Width *findWidth(std::string_view name) {
  const auto found = std::find_if(std::begin(widths), std::end(widths), [&](const Width &w) { return w.name == name; });
  return found == std::end(widths) ? nullptr : found;
}

/// Names without what says that the old value comes back, and without their size: those before gfx11, followed by
/// nothing or _x2, and those since, followed by 32 or 64, which LDS has everywhere. Floats have one name.
struct AtomicName {
  std::string_view before, since;
  AtomicOp op;
};
constexpr AtomicName atomics[] = {
    {"swap", "swap_b", AtomicOp::Swap}, {"cmpswap", "cmpswap_b", AtomicOp::CmpSwap},
    {"add", "add_u", AtomicOp::Add},    {"sub", "sub_u", AtomicOp::Sub},
    {"", "rsub_u", AtomicOp::Rsub},     {"smin", "min_i", AtomicOp::Min},
    {"smax", "max_i", AtomicOp::Max},   {"umin", "min_u", AtomicOp::UMin},
    {"umax", "max_u", AtomicOp::UMax},  {"and", "and_b", AtomicOp::And},
    {"or", "or_b", AtomicOp::Or},       {"xor", "xor_b", AtomicOp::Xor},
    {"inc", "inc_u", AtomicOp::Inc},    {"dec", "dec_u", AtomicOp::Dec},
    {"", "add_f", AtomicOp::FAdd},      {"", "min_f", AtomicOp::FMin},
    {"", "max_f", AtomicOp::FMax},      {"", "min_num_f", AtomicOp::FMin},
    {"", "max_num_f", AtomicOp::FMax},
};
struct Atomic {
  AtomicOp op;
  uint16_t bytes;
};
std::optional<Atomic> findAtomic(std::string_view name) {
  if (name == "pk_add_f16" || name == "pk_add_bf16") {
    return Atomic{name == "pk_add_f16" ? AtomicOp::PkAddF16 : AtomicOp::PkAddBF16, 4};
  }
  auto sizeOf = [&](std::string_view stem, std::string_view word, std::string_view pair) -> uint16_t {
    const bool fits = !stem.empty() && name.starts_with(stem);
    const std::string_view rest = fits ? name.substr(stem.size()) : "?";
    return rest == word ? 4 : rest == pair ? 8 : 0;
  };
  for (const AtomicName &known : atomics) {
    if (const uint16_t bytes = sizeOf(known.before, "", "_x2") + sizeOf(known.since, "32", "64")) {
      return Atomic{known.op, bytes};
    }
  }
  return std::nullopt;
}

/// The register rows of a value.
unsigned rowsOf(unsigned bytes) { return std::max(1u, bytes / 4); }

void vectorSource(Decoder &decoder, MemorySource place, const TextOperand &from, unsigned dwords) {
  Source &to = decoder.inst.s[place];
  if (from.kind != Kind::Vector || (dwords != 0 && from.dwords != dwords) || from.neg || from.abs || from.half >= 0) {
    decoder.unsupported(fmt::format("operand {} where {} vector registers fit", from.text, dwords));
  }
  to.kind = Source::Kind::Vector;
  to.reg = from.reg;
  to.dwords = from.dwords;
  decoder.reads(to);
}

void scalarSource(Decoder &decoder, MemorySource place, const TextOperand &from, unsigned dwords) {
  if (from.kind == Kind::Integer || (from.kind == Kind::Scalar && from.reg == sreg::Null)) {
    decoder.inst.s[place].kind = Source::Kind::Constant;
    decoder.inst.s[place].value = uint64_t(from.integer);
    return;
  }
  Source &to = decoder.inst.s[place];
  if (from.kind != Kind::Scalar || from.dwords != dwords) {
    decoder.unsupported(fmt::format("operand {} where {} scalar registers fit", from.text, dwords));
  }
  to.kind = Source::Kind::Scalar;
  to.reg = from.reg;
  to.dwords = uint8_t(dwords);
  decoder.reads(to);
}

/// Bytes and flags of what a name ends with; false when it is none.
bool setWidth(Inst &inst, std::string_view name, uint32_t flags, Class kind) {
  const Width *width = findWidth(name);
  if (!width) {
    return false;
  }
  inst.bytes = width->bytes;
  inst.flags |= width->flags | flags;
  inst.kind = kind;
  return true;
}

bool setAtomic(Inst &inst, std::string_view name, Class kind) {
  const std::optional<Atomic> atomic = findAtomic(name);
  if (!atomic) {
    return false;
  }
  inst.bytes = atomic->bytes;
  inst.operation = uint32_t(atomic->op);
  inst.flags |= IsAtomic;
  inst.kind = kind;
  return true;
}
bool comparesToo(const Inst &inst) { return static_cast<AtomicOp>(inst.operation) == AtomicOp::CmpSwap; }

/// Cache policies change no result.
void cachePolicies(Decoder &decoder) {
  for (const char *name : {"glc", "slc", "dlc", "sc0", "sc1", "nt", "th", "scope", "scc"}) {
    decoder.has(name);
  }
}

bool returnsOld(Decoder &decoder) {
  const std::string *hint = decoder.text.modifier("th");
  const bool rdna4 = hint && hint->find("RETURN") != std::string::npos;
  const Family family = decoder.program.chip->family;
  const bool gfx940 = family == Family::Cdna3 || family == Family::Cdna4;
  return rdna4 || (gfx940 ? decoder.has("sc0") : decoder.has("glc"));
}

bool decodeScalarLoad(Decoder &decoder, std::string_view name) {
  const bool buffer = name.starts_with("s_buffer_load_");
  if (!buffer && !name.starts_with("s_load_")) {
    return false;
  }
  const std::string_view what = name.substr(buffer ? 14 : 7);
  Inst &inst = decoder.inst;
  const Width *width = findWidth(what);
  inst.bytes = width                                  ? width->bytes
               : what == "dwordx8" || what == "b256"  ? 32
               : what == "dwordx16" || what == "b512" ? 64
                                                      : 0;
  if (inst.bytes == 0) {
    return false;
  }
  inst.flags = width ? width->flags : 0;
  inst.kind = Class::ScalarLoad;
  inst.exec = execScalarLoad;
  decoder.setScalarDestination(decoder.operand(0), rowsOf(inst.bytes));
  const TextOperand &base = decoder.operand(1);
  if (base.kind != Kind::Scalar || base.dwords != (buffer ? 4 : 2)) {
    decoder.unsupported("operand " + base.text);
  }
  inst.s[0].kind = Source::Kind::Scalar;
  inst.s[0].reg = base.reg;
  inst.s[0].dwords = base.dwords;
  decoder.reads(inst.s[0]);
  const TextOperand &offset = decoder.operand(2);
  if (offset.kind == Kind::Integer) {
    inst.offset = offset.integer;
  } else if (offset.kind == Kind::Scalar && offset.dwords == 1) {
    if (offset.reg != sreg::Null) {
      inst.s[1].kind = Source::Kind::Scalar;
      inst.s[1].reg = offset.reg;
      decoder.reads(inst.s[1]);
    }
  } else {
    decoder.unsupported("operand " + offset.text);
  }
  inst.offset += decoder.number("offset");
  cachePolicies(decoder);
  return true;
}

bool decodeGlobal(Decoder &decoder, std::string_view name) {
  Inst &inst = decoder.inst;
  std::string_view rest;
  if (name.starts_with("global_")) {
    rest = name.substr(7);
  } else if (name.starts_with("flat_")) {
    rest = name.substr(5);
    inst.flags |= IsFlat;
  } else if (name.starts_with("scratch_")) {
    rest = name.substr(8);
    inst.flags |= IsScratch;
  } else {
    return false;
  }
  const bool hasScalar = !(inst.flags & IsFlat);
  size_t next = 0;
  auto address = [&] {
    const TextOperand &from = decoder.operand(next++);
    if (from.kind != Kind::Off) {
      vectorSource(decoder, AddressSource, from, 0);
    }
  };
  auto scalar = [&] {
    if (hasScalar) {
      const TextOperand &from = decoder.operand(next++);
      if (from.kind != Kind::Off) {
        scalarSource(decoder, ScalarSource, from, inst.flags & IsScratch ? 1 : 2);
      }
    }
  };
  if (rest.starts_with("load_lds_")) {
    if (!setWidth(inst, rest.substr(9), ToLds, Class::Load)) {
      return false;
    }
    address();
    scalar();
    decoder.reads(RegisterRange{sreg::M0, 1, false});
  } else if (rest.starts_with("load_")) {
    if (!setWidth(inst, rest.substr(5), 0, Class::Load)) {
      return false;
    }
    decoder.setVectorDestination(decoder.operand(next++), rowsOf(inst.bytes));
    address();
    scalar();
  } else if (rest.starts_with("store_")) {
    if (!setWidth(inst, rest.substr(6), IsStore, Class::Store)) {
      return false;
    }
    address();
    vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes));
    scalar();
  } else if (rest.starts_with("atomic_")) {
    if (!setAtomic(inst, rest.substr(7), Class::Atomic)) {
      return false;
    }
    if (returnsOld(decoder)) {
      inst.flags |= ReturnsOld;
      decoder.setVectorDestination(decoder.operand(next++), rowsOf(inst.bytes));
    }
    address();
    vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes) * (comparesToo(inst) ? 2 : 1));
    scalar();
  } else {
    return false;
  }
  if (next != decoder.operandCount()) {
    decoder.unsupported("operand " + decoder.operand(next).text);
  }
  inst.exec = execGlobal;
  inst.offset = decoder.number("offset");
  cachePolicies(decoder);
  return true;
}

bool decodeBuffer(Decoder &decoder, std::string_view name) {
  if (!name.starts_with("buffer_")) {
    return false;
  }
  Inst &inst = decoder.inst;
  std::string_view rest = name.substr(7);
  size_t next = 0;
  const bool toLds = decoder.has("lds");
  if (rest.starts_with("load_") || rest.starts_with("store_")) {
    const bool store = rest.starts_with("store_");
    const uint32_t flags = store ? IsStore : toLds ? ToLds : 0;
    if (!setWidth(inst, rest.substr(store ? 6 : 5), flags, store ? Class::Store : Class::Load)) {
      return false;
    }
    if (store) {
      vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes));
    } else if (!toLds) {
      decoder.setVectorDestination(decoder.operand(next++), rowsOf(inst.bytes));
    }
  } else if (rest.starts_with("atomic_")) {
    if (!setAtomic(inst, rest.substr(7), Class::Atomic)) {
      return false;
    }
    const TextOperand &data = decoder.operand(next++);
    const unsigned rows = rowsOf(inst.bytes);
    vectorSource(decoder, DataSource, data, rows * (comparesToo(inst) ? 2 : 1));
    if (returnsOld(decoder)) {
      inst.flags |= ReturnsOld;
      inst.d = {data.reg, uint8_t(rows), true};
      decoder.writes(inst.d);
    }
  } else {
    return false;
  }
  if (toLds) {
    decoder.reads(RegisterRange{sreg::M0, 1, false});
  }
  if (decoder.has("offen")) {
    inst.flags |= OffEn;
  }
  if (decoder.has("idxen")) {
    inst.flags |= IdxEn;
  }
  // The address is left out where nothing is used of it and the load goes to LDS.
  const TextOperand &address = decoder.operand(next);
  const unsigned addresses = ((inst.flags & OffEn) != 0) + ((inst.flags & IdxEn) != 0);
  if (addresses != 0) {
    vectorSource(decoder, AddressSource, address, addresses);
    ++next;
  } else if (address.kind == Kind::Off) {
    ++next;
  }
  scalarSource(decoder, ResourceSource, decoder.operand(next++), 4);
  if (inst.s[ResourceSource].kind != Source::Kind::Scalar) {
    decoder.unsupported("a buffer that is no register");
  }
  scalarSource(decoder, ScalarSource, decoder.operand(next++), 1);
  if (next != decoder.operandCount()) {
    decoder.unsupported("operand " + decoder.operand(next).text);
  }
  inst.exec = execBuffer;
  inst.offset = decoder.number("offset");
  cachePolicies(decoder);
  return true;
}

} // namespace

bool kvc::sim::amdgcn::decodeMemory(Decoder &decoder) {
  const std::string &name = decoder.text.name;
  if (decodeScalarLoad(decoder, name) || decodeGlobal(decoder, name) || decodeBuffer(decoder, name)) {
    decoder.checkModifiers();
    return true;
  }
  return false;
}

// LDS -----------------------------------------------------------------------------------------------------------------

/// The encoding of swizzle(QUAD_PERM,a,b,c,d), (BITMASK_PERM,"pattern"), (BROADCAST,size,lane), (SWAP,size),
/// (REVERSE,size); -1 for another one.
static int64_t swizzleOf(const std::string &text) {
  std::string_view rest = std::string_view(text).substr(8);
  rest.remove_suffix(rest.ends_with(')'));
  std::vector<std::string_view> parts;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    parts.push_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  auto number = [&](size_t i) { return i < parts.size() ? integerOf(parts[i]).value_or(-1) : -1; };
  auto masks = [](int64_t a, int64_t o, int64_t x) { return a | (o << 5) | (x << 10); };
  if (parts.empty()) {
    return -1;
  }
  const int64_t size = number(1);
  if (parts[0] == "QUAD_PERM" && parts.size() == 5) {
    return 0x8000 | number(1) | (number(2) << 2) | (number(3) << 4) | (number(4) << 6);
  }
  if (parts[0] == "BITMASK_PERM" && parts.size() == 2 && parts[1].size() == 7) {
    // Letters for bits 4 to 0: 0, 1, p (as it is), i (inverted).
    int64_t a = 0, o = 0, x = 0;
    for (unsigned bit = 0; bit < 5; ++bit) {
      const char c = parts[1][5 - bit];
      a |= int64_t(c == 'p' || c == 'i') << bit;
      o |= int64_t(c == '1') << bit;
      x |= int64_t(c == 'i') << bit;
    }
    return masks(a, o, x);
  }
  if (size < 1 || size > 32) {
    return -1;
  }
  return parts[0] == "BROADCAST" ? masks(32 - size, number(2), 0)
         : parts[0] == "SWAP"    ? masks(31, 0, size)
         : parts[0] == "REVERSE" ? masks(31, 0, size - 1)
                                 : -1;
}

bool kvc::sim::amdgcn::decodeLds(Decoder &decoder) {
  const std::string &name = decoder.text.name;
  if (!name.starts_with("ds_")) {
    return false;
  }
  Inst &inst = decoder.inst;
  std::string_view rest = std::string_view(name).substr(3);
  inst.exec = execLds;
  size_t next = 0;
  auto begins = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix)) {
      return false;
    }
    rest.remove_prefix(prefix.size());
    return true;
  };
  auto finish = [&] {
    if (next != decoder.operandCount()) {
      decoder.unsupported("operand " + decoder.operand(next).text);
    }
    if (decoder.has("gds")) {
      decoder.unsupported("GDS");
    }
    decoder.checkModifiers();
    return true;
  };
  if (name == "ds_bpermute_b32" || name == "ds_permute_b32" || name == "ds_swizzle_b32") {
    inst.exec = execLdsPermute;
    inst.kind = Class::Lane;
    inst.operation = name == "ds_bpermute_b32" ? 0 : name == "ds_permute_b32" ? 1 : 2;
    decoder.setVectorDestination(decoder.operand(next++), 1);
    vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
    if (inst.operation != 2) {
      vectorSource(decoder, DataSource, decoder.operand(next++), 1);
      inst.offset = decoder.number("offset");
      return finish();
    }
    // offset:swizzle(MODE, numbers...) or offset:NUMBER.
    const std::string *pattern = decoder.text.modifier("offset");
    inst.offset = 0;
    if (pattern && pattern->starts_with("swizzle(")) {
      decoder.has("offset");
      inst.offset = swizzleOf(*pattern);
      if (inst.offset < 0) {
        decoder.unsupported("modifier offset:" + *pattern);
      }
    } else {
      inst.offset = decoder.number("offset");
    }
    return finish();
  }
  if (begins("read_b64_tr_") || begins("load_tr_b64_")) {
    inst.exec = execLdsTranspose;
    inst.kind = Class::LdsRead;
    inst.operation = rest == "b16" ? 16 : rest == "b8" ? 8 : rest == "b4" ? 4 : 0;
    if (inst.operation == 0) {
      return false;
    }
    inst.bytes = 8;
    decoder.setVectorDestination(decoder.operand(next++), 2);
    vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
    inst.offset = decoder.number("offset");
    return finish();
  }
  const bool read2 = begins("read2_") || begins("load_2addr_"),
             write2 = !read2 && (begins("write2_") || begins("store_2addr_"));
  const bool read64 = !read2 && !write2 && (begins("read2st64_"));
  const bool write64 = !read2 && !write2 && !read64 && begins("write2st64_");
  if (read2 || write2 || read64 || write64) {
    const bool strided = read64 || write64 || begins("stride64_"), reads = read2 || read64;
    if (!setWidth(inst, rest, TwoAddresses, reads ? Class::LdsRead : Class::LdsWrite) || inst.bytes < 4 ||
        inst.bytes > 8) {
      return false;
    }
    const int64_t unit = inst.bytes * (strided ? 64 : 1);
    inst.offset = decoder.number("offset0") * unit;
    inst.offset2 = decoder.number("offset1") * unit;
    if (reads) {
      decoder.setVectorDestination(decoder.operand(next++), 2 * rowsOf(inst.bytes));
      vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
    } else {
      inst.flags |= IsStore;
      vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
      vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes));
      vectorSource(decoder, ScalarSource, decoder.operand(next++), rowsOf(inst.bytes));
    }
    return finish();
  }
  inst.offset = decoder.number("offset");
  if (begins("read_") || begins("load_")) {
    if (!setWidth(inst, rest, 0, Class::LdsRead)) {
      return false;
    }
    decoder.setVectorDestination(decoder.operand(next++), rowsOf(inst.bytes));
    vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
    return finish();
  }
  if (begins("write_") || begins("store_")) {
    if (!setWidth(inst, rest, IsStore, Class::LdsWrite)) {
      return false;
    }
    vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
    vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes));
    return finish();
  }
  // Atomics: ds_add_u32, ds_add_rtn_u32, ds_wrxchg_rtn_b32, ds_cmpst_b32.
  std::string plain(rest);
  const size_t returning = plain.find("_rtn");
  if (returning != std::string::npos) {
    plain.erase(returning, 4);
  }
  bool newFirst = false;
  for (const auto &[from, to] : {std::pair("wrxchg_", "swap_"), std::pair("storexchg_", "swap_"),
                                 std::pair("cmpstore_", "cmpswap_"), std::pair("cmpst_", "cmpswap_")}) {
    if (plain.starts_with(from)) {
      newFirst = std::string_view(from) == "cmpstore_";
      plain = to + plain.substr(std::string_view(from).size());
      break;
    }
  }
  if (!setAtomic(inst, plain, Class::LdsAtomic)) {
    return false;
  }
  inst.flags |= returning != std::string::npos ? ReturnsOld : 0;
  if (inst.flags & ReturnsOld) {
    decoder.setVectorDestination(decoder.operand(next++), rowsOf(inst.bytes));
  }
  vectorSource(decoder, AddressSource, decoder.operand(next++), 1);
  if (comparesToo(inst)) {
    // ds_cmpst has the value to compare with first, ds_cmpstore the new value.
    vectorSource(decoder, newFirst ? DataSource : ScalarSource, decoder.operand(next++), rowsOf(inst.bytes));
    vectorSource(decoder, newFirst ? ScalarSource : DataSource, decoder.operand(next++), rowsOf(inst.bytes));
  } else {
    vectorSource(decoder, DataSource, decoder.operand(next++), rowsOf(inst.bytes));
  }
  return finish();
}

//===- TableArithmetic.cpp - Integer, floating-point and move rows --------===//
#include "common/Floats.h"
#include "ptx/Alu.h"
#include "ptx/Decoder.h"
#include "ptx/DecoderImpl.h"
#include "ptx/Machine.h"

#include <bit>

using namespace kvc::sim;
using namespace kvc::sim::ptx;

static Type bitsType(unsigned bits) {
  return bits == 16 ? Type::B16 : bits == 32 ? Type::B32 : bits == 64 ? Type::B64 : Type::B128;
}

/// Flags of floating-point operations that the modifiers ask for.
static unsigned flagsOf(const Build &b) {
  unsigned flags = 0;
  flags |= b.has("ftz") ? alu::ftz : 0;
  flags |= b.has("sat") ? alu::sat : 0;
  flags |= b.has("relu") ? alu::relu : 0;
  flags |= b.has("NaN") ? alu::nan : 0;
  flags |= b.has("xorsign") ? alu::xorsign : 0;
  const int rounding = b.which({"rn", "rz", "rm", "rp"});
  return flags | (rounding > 0 ? unsigned(rounding) << alu::roundingShift : 0);
}

static void choose(Build &b, AluOp op, Type type, unsigned flags) {
  b.inst.aux = flags;
  b.inst.exec = pickAlu(op, type, flags);
  if (!b.inst.exec) {
    b.refuse("a combination of modifiers that the simulator has");
  }
}

/// Destination and n sources of one type.
template <int n> static void uniform(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  for (int i = 0; i < n; ++i) {
    b.src(type);
  }
  choose(b, AluOp(row.op), type, flagsOf(b));
}

/// The result is twice as wide; so is the third operand of mad.
template <int n> static void wide(Build &b, const Row &row) {
  const Type type = b.type();
  const Type result =
      bitsOf(type) == 16 ? (isSigned(type) ? Type::S32 : Type::U32) : (isSigned(type) ? Type::S64 : Type::U64);
  b.dst(result);
  b.src(type);
  b.src(type);
  if (n == 3) {
    b.src(result);
  }
  choose(b, AluOp(row.op), type, 0);
}

/// The result has 32 bits.
static void counting(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(Type::U32);
  b.src(type);
  choose(b, AluOp(row.op), type, 0);
}

static void bitField(Build &b, const Row &row) {
  const Type type = b.type();
  const bool insert = AluOp(row.op) == AluOp::Bfi;
  b.dst(type);
  b.src(type);
  if (insert) {
    b.src(type);
  }
  b.src(Type::U32);
  b.src(Type::U32);
  choose(b, AluOp(row.op), type, 0);
}

static void withCount(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  b.src(type);
  b.src(Type::U32);
  choose(b, AluOp(row.op), type, 0);
}

static void dot(Build &b, const Row &row) {
  const Type first = b.type(0), second = b.type(1);
  const Type result = isSigned(first) || isSigned(second) ? Type::S32 : Type::U32;
  b.dst(result);
  b.src(Type::B32);
  b.src(Type::B32);
  b.src(result);
  choose(b, AluOp(row.op), first, isSigned(second));
}

/// add.cc, addc, ...: row.op is the operation; the opcode's `c` takes the carry, `.cc` gives it.
template <int n> static void carry(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  for (int i = 0; i < n; ++i) {
    b.src(type);
  }
  choose(b, AluOp(row.op), type, 0);
  b.inst.aux = (b.source.opcode.back() == 'c' ? 1 : 0) | (b.has("cc") ? 2 : 0);
}

static void predicateLogic(Build &b, const Row &row);

/// and, or, xor, not of bits or predicates.
template <int n> static void logic(Build &b, const Row &row) {
  const Type type = b.type();
  if (type == Type::Pred) {
    predicateLogic(b, row);
    return;
  }
  uniform<n>(b, row);
}

static void lop3(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  const uint64_t table = b.immediate(Type::B32);
  choose(b, AluOp::Lop3, Type::B32, 0);
  b.inst.imm = int64_t(table & 0xff);
}

static void funnel(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  b.src(Type::U32);
  const bool right = b.has("r"), wrap = b.has("wrap");
  choose(b, right ? (wrap ? AluOp::ShfRWrap : AluOp::ShfRClamp) : (wrap ? AluOp::ShfLWrap : AluOp::ShfLClamp),
         Type::B32, 0);
}

static void shiftRow(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  b.src(type);
  b.src(Type::U32);
  choose(b, AluOp(row.op), type, 0);
}

static void prmtRow(Build &b, const Row &row) {
  b.dst(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  b.src(Type::B32);
  choose(b, AluOp::Prmt, Type::B32, 0);
  b.inst.aux = unsigned(b.which({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
}

static void selpRow(Build &b, const Row &row) {
  const Type type = b.type();
  b.dst(type);
  b.src(type);
  b.src(type);
  const bool negated = b.srcPred();
  choose(b, AluOp::Selp, bitsType(bitsOf(type)), 0);
  b.inst.aux = negated;
}

static void slctRow(Build &b, const Row &row) {
  const Type type = b.type(0), by = b.type(1);
  b.dst(type);
  b.src(type);
  b.src(type);
  b.src(by);
  choose(b, by == Type::F32 ? AluOp::SlctF32 : AluOp::SlctS32, bitsType(bitsOf(type)), 0);
  b.inst.aux = b.has("ftz");
}

static void testpRow(Build &b, const Row &row) {
  const Type type = b.type();
  b.dstPred();
  b.src(type);
  choose(b, AluOp::Testp, type, 0);
  b.inst.aux = uint64_t(b.which({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
}

/// min and max of floats have two or, on new chips, three operands.
static void floatMinMax(Build &b, const Row &row) {
  const Type type = b.type();
  const bool three = b.operandCount() == 4;
  if (three && (b.decoder.target.sm < 100 || type != Type::F32)) {
    b.refuse("two operands (three are for f32 on sm_100 or newer)");
  }
  if (b.has("xorsign") != b.has("abs")) {
    b.refuse(".xorsign.abs");
  }
  b.dst(type);
  for (int i = 0; i < (three ? 3 : 2); ++i) {
    b.src(type);
  }
  const bool isMin = AluOp(row.op) == AluOp::Min;
  choose(b, three ? (isMin ? AluOp::Min3 : AluOp::Max3) : AluOp(row.op), type, flagsOf(b));
}

/// neg and abs of halves: the function reads in `aux` what the register holds.
static void halfSign(Build &b, const Row &row) {
  const Type type = b.type();
  uniform<1>(b, row);
  b.inst.aux = (bitsOf(type) == 32 ? 1 : 0) | (type == Type::BF16 || type == Type::BF16x2 ? 2 : 0);
}

static void compareRow(Build &b, const Row &row) {
  const bool isSet = row.op == int(AluOp::Set);
  static constexpr std::pair<std::string_view, Compare> names[] = {
      {"eq", Compare::Eq},   {"ne", Compare::Ne},   {"lt", Compare::Lt},   {"le", Compare::Le},   {"gt", Compare::Gt},
      {"ge", Compare::Ge},   {"lo", Compare::Lt},   {"ls", Compare::Le},   {"hi", Compare::Gt},   {"hs", Compare::Ge},
      {"equ", Compare::Equ}, {"neu", Compare::Neu}, {"ltu", Compare::Ltu}, {"leu", Compare::Leu}, {"gtu", Compare::Gtu},
      {"geu", Compare::Geu}, {"num", Compare::Num}, {"nan", Compare::Nan}};
  CompareAux aux{};
  for (auto [name, compare] : names) {
    if (b.has(name)) {
      aux.compare = compare;
    }
  }
  aux.result = isSet ? b.type(0) : Type::None;
  const Type type = b.type(isSet ? 1 : 0);
  const bool unsignedOnly = b.has("lo") || b.has("ls") || b.has("hi") || b.has("hs");
  if (unsignedOnly && infoOf(type).kind != TypeKind::Unsigned) {
    b.refuse(".lt, .le, .gt or .ge for this type");
  }
  if (infoOf(type).kind == TypeKind::Bits && aux.compare != Compare::Eq && aux.compare != Compare::Ne) {
    b.refuse(".eq or .ne for a type of bits");
  }
  aux.combine = Combine(b.which({"and", "or", "xor"}) + 1);
  aux.ftz = b.has("ftz");
  if (isSet) {
    b.dst(aux.result);
    b.append(noPlace);
  } else {
    b.dstPredPair();
  }
  b.src(type);
  b.src(type);
  if (aux.combine != Combine::None) {
    aux.negated = b.srcPred();
  }
  b.inst.aux = aux.pack();
  b.inst.exec = pickCompare(isSet, type, unsigned(aux.compare) | (aux.ftz ? 256 : 0));
  if (!b.inst.exec) {
    b.refuse("a comparison that this type has");
  }
}

static uint32_t operandMask(Warp &warp, const Inst &inst, unsigned i) {
  return warp.predicate(inst.op[i]) ^ (inst.aux >> i & 1 ? allLanes : 0);
}

template <int op> static void execPredicate(Warp &warp, const Inst &inst, uint32_t active) {
  const uint32_t a = operandMask(warp, inst, 1);
  const uint32_t b = op == int(AluOp::Not) || op == int(AluOp::Mov) ? 0 : operandMask(warp, inst, 2);
  const uint32_t value = op == int(AluOp::And)   ? a & b
                         : op == int(AluOp::Or)  ? a | b
                         : op == int(AluOp::Xor) ? a ^ b
                         : op == int(AluOp::Not) ? ~a
                                                 : a;
  uint32_t &d = warp.predicate(inst.op[0]);
  d = (d & ~active) | (value & active);
}

static void predicateLogic(Build &b, const Row &row) {
  b.dstPred();
  const bool one = AluOp(row.op) == AluOp::Not || AluOp(row.op) == AluOp::Mov;
  for (unsigned i = 1; i <= (one ? 1u : 2u); ++i) {
    b.inst.aux |= uint64_t(b.srcPred()) << i;
  }
  switch (AluOp(row.op)) {
  case AluOp::And:
    b.inst.exec = execPredicate<int(AluOp::And)>;
    break;
  case AluOp::Or:
    b.inst.exec = execPredicate<int(AluOp::Or)>;
    break;
  case AluOp::Xor:
    b.inst.exec = execPredicate<int(AluOp::Xor)>;
    break;
  case AluOp::Not:
    b.inst.exec = execPredicate<int(AluOp::Not)>;
    break;
  default:
    b.inst.exec = execPredicate<int(AluOp::Mov)>;
    break;
  }
}

/// Registers into one larger register, or back.
template <bool packing> static void execPack(Warp &warp, const Inst &inst, uint32_t active) {
  const unsigned n = inst.count - 1;
  const auto part = unsigned(inst.aux);
  const Place whole = packing ? inst.op[0] : inst.op[n];
  uint8_t *large = warp.lanes<uint8_t>(whole);
  for (unsigned i = 0; i < n; ++i) {
    uint8_t *small = warp.lanes<uint8_t>(inst.op[packing ? i + 1 : i]);
    for (unsigned lane = 0; lane < laneCount; ++lane) {
      if (active >> lane & 1) {
        uint8_t *at = large + (size_t(lane) * n + i) * part;
        packing ? std::memcpy(at, small + lane * part, part) : std::memcpy(small + lane * part, at, part);
      }
    }
  }
}

/// %clock and others that change while a warp runs: counted in warp instructions, so that runs repeat.
static void execClock(Warp &warp, const Inst &inst, uint32_t active) {
  const uint64_t now = warp.worker->executed + warp.executed + warp.cta->cluster->id;
  for (unsigned lane = 0; lane < laneCount; ++lane) {
    if (active >> lane & 1) {
      if (inst.aux == 8) {
        warp.lanes<uint64_t>(inst.op[0])[lane] = now;
      } else {
        warp.lanes<uint32_t>(inst.op[0])[lane] = uint32_t(inst.aux == 5 ? now >> 32 : now);
      }
    }
  }
}

static void movRow(Build &b, const Row &row) {
  const Type type = b.type();
  if (type == Type::Pred) {
    predicateLogic(b, row);
    return;
  }
  const Type bits = bitsType(bitsOf(type));
  const Operand &to = b.peek();
  const Operand &from = b.source.operands.size() > 1 ? b.source.operands[1] : to;
  if (to.kind == Operand::Kind::Vector || from.kind == Operand::Kind::Vector) {
    const bool packing = from.kind == Operand::Kind::Vector;
    const auto n = unsigned((packing ? from : to).elements.size());
    if (n == 0 || bitsOf(type) % n != 0 || bitsOf(type) / n < 16 || (to.kind == from.kind)) {
      b.refuse("as many registers as make the type, of 16 bits at least");
    }
    const Type part = bitsType(bitsOf(type) / n);
    packing ? (void)b.dst(type) : b.dstVector(part, n);
    packing ? b.srcVector(part, n) : (void)b.src(type);
    b.inst.aux = bytesOf(part);
    b.inst.exec = packing ? execPack<true> : execPack<false>;
    return;
  }
  b.dst(type);
  if (from.kind == Operand::Kind::Special) {
    // A 64-bit move of a 32-bit register that is known.
    const bool clock64 = from.text == "%clock64" || from.text == "%globaltimer";
    const bool clock32 = from.text == "%clock" || from.text == "%clock_hi" || from.text == "%globaltimer_lo" ||
                         from.text == "%globaltimer_hi";
    if (clock64 || clock32) {
      b.takeOperand();
      if (bitsOf(type) != (clock64 ? 64 : 32)) {
        b.refuse("a register of the size of the clock");
      }
      const bool high = from.text == "%clock_hi" || from.text == "%globaltimer_hi";
      b.inst.aux = clock64 ? 8 : high ? 5 : 4;
      b.inst.exec = execClock;
      return;
    }
    if (from.text == "%gridid" && bitsOf(type) == 64) {
      b.takeOperand();
      b.append(b.constant(1, 8));
      choose(b, AluOp::Mov, bits, 0);
      return;
    }
  }
  if (from.kind == Operand::Kind::Function) {
    b.refuse("no address of a function (calls through pointers are not supported)");
  }
  b.src(type);
  choose(b, AluOp::Mov, bits, 0);
}

// Rows ----------------------------------------------------------------------------------------------------------------

static constexpr int op(AluOp o) { return int(o); }

std::span<const Row> kvc::sim::ptx::integerRows() {
  static const Row rows[] = {
      {"add <int>", Class::Integer, uniform<2>, op(AluOp::Add)},
      {"add <int16x2>", Class::Integer, uniform<2>, op(AluOp::Add), 90, 80},
      {"add sat s32", Class::Integer, uniform<2>, op(AluOp::AddSat)},
      {"sub <int>", Class::Integer, uniform<2>, op(AluOp::Sub)},
      {"sub sat s32", Class::Integer, uniform<2>, op(AluOp::SubSat)},
      {"mul lo <int>", Class::Integer, uniform<2>, op(AluOp::MulLo)},
      {"mul hi <int>", Class::Integer, uniform<2>, op(AluOp::MulHi)},
      {"mul wide <int1632>", Class::Integer, wide<2>, op(AluOp::MulWide)},
      {"mad lo <int>", Class::Integer, uniform<3>, op(AluOp::MadLo)},
      {"mad hi <int>", Class::Integer, uniform<3>, op(AluOp::MadHi)},
      {"mad hi sat s32", Class::Integer, uniform<3>, op(AluOp::MadHiSat)},
      {"mad wide <int1632>", Class::Integer, wide<3>, op(AluOp::MadWide)},
      {"mul24 lo <int32>", Class::Integer, uniform<2>, op(AluOp::Mul24Lo)},
      {"mul24 hi <int32>", Class::Integer, uniform<2>, op(AluOp::Mul24Hi)},
      {"mad24 lo <int32>", Class::Integer, uniform<3>, op(AluOp::Mad24Lo)},
      {"mad24 hi <int32>", Class::Integer, uniform<3>, op(AluOp::Mad24Hi)},
      {"sad <int>", Class::Integer, uniform<3>, op(AluOp::Sad)},
      {"div <int>", Class::Integer, uniform<2>, op(AluOp::Div)},
      {"rem <int>", Class::Integer, uniform<2>, op(AluOp::Rem)},
      {"abs <sint>", Class::Integer, uniform<1>, op(AluOp::Abs)},
      {"neg <sint>", Class::Integer, uniform<1>, op(AluOp::Neg)},
      {"min <int>", Class::Integer, uniform<2>, op(AluOp::Min)},
      {"max <int>", Class::Integer, uniform<2>, op(AluOp::Max)},
      {"min [relu] s16x2|s32", Class::Integer, uniform<2>, op(AluOp::Min), 90, 80},
      {"min s16x2|s32 relu", Class::Integer, uniform<2>, op(AluOp::Min), 90, 80},
      {"max [relu] s16x2|s32", Class::Integer, uniform<2>, op(AluOp::Max), 90, 80},
      {"max s16x2|s32 relu", Class::Integer, uniform<2>, op(AluOp::Max), 90, 80},
      {"min u16x2", Class::Integer, uniform<2>, op(AluOp::Min), 90, 80},
      {"max u16x2", Class::Integer, uniform<2>, op(AluOp::Max), 90, 80},
      {"popc <b3264>", Class::Integer, counting, op(AluOp::Popc)},
      {"clz <b3264>", Class::Integer, counting, op(AluOp::Clz)},
      {"bfind <int3264>", Class::Integer, counting, op(AluOp::Bfind)},
      {"bfind shiftamt <int3264>", Class::Integer, counting, op(AluOp::BfindShift)},
      {"brev <b3264>", Class::Integer, uniform<1>, op(AluOp::Brev)},
      {"bfe <int3264>", Class::Integer, bitField, op(AluOp::Bfe)},
      {"bfi <b3264>", Class::Integer, bitField, op(AluOp::Bfi)},
      {"szext clamp <int32>", Class::Integer, withCount, op(AluOp::SzextClamp), 70, 76},
      {"szext wrap <int32>", Class::Integer, withCount, op(AluOp::SzextWrap), 70, 76},
      {"bmsk clamp b32", Class::Integer, withCount, op(AluOp::BmskClamp), 70, 76},
      {"bmsk wrap b32", Class::Integer, withCount, op(AluOp::BmskWrap), 70, 76},
      {"dp4a <int32> <int32>", Class::Integer, dot, op(AluOp::Dp4a)},
      {"dp2a lo <int32> <int32>", Class::Integer, dot, op(AluOp::Dp2aLo)},
      {"dp2a hi <int32> <int32>", Class::Integer, dot, op(AluOp::Dp2aHi)},
      {"add cc <int3264>", Class::Integer, carry<2>, op(AluOp::AddCarry)},
      {"addc [cc] <int3264>", Class::Integer, carry<2>, op(AluOp::AddCarry)},
      {"sub cc <int3264>", Class::Integer, carry<2>, op(AluOp::SubCarry)},
      {"subc [cc] <int3264>", Class::Integer, carry<2>, op(AluOp::SubCarry)},
      {"mad lo cc <int3264>", Class::Integer, carry<3>, op(AluOp::MadLoCarry)},
      {"mad hi cc <int3264>", Class::Integer, carry<3>, op(AluOp::MadHiCarry)},
      {"madc lo [cc] <int3264>", Class::Integer, carry<3>, op(AluOp::MadLoCarry)},
      {"madc hi [cc] <int3264>", Class::Integer, carry<3>, op(AluOp::MadHiCarry)},
      {"and <bits>", Class::Logic, logic<2>, op(AluOp::And)},
      {"or <bits>", Class::Logic, logic<2>, op(AluOp::Or)},
      {"xor <bits>", Class::Logic, logic<2>, op(AluOp::Xor)},
      {"not <bits>", Class::Logic, logic<1>, op(AluOp::Not)},
      {"cnot b16|b32|b64", Class::Logic, uniform<1>, op(AluOp::Cnot)},
      {"lop3 b32", Class::Logic, lop3},
      {"shf l|r clamp|wrap b32", Class::Logic, funnel},
      {"shl b16|b32|b64", Class::Logic, shiftRow, op(AluOp::Shl)},
      {"shr <shift>", Class::Logic, shiftRow, op(AluOp::Shr)},
      {"setp <cmp> [<bool>] <scalar>", Class::Compare, compareRow, op(AluOp::Setp)},
      {"setp <cmp> [<bool>] ftz f32", Class::Compare, compareRow, op(AluOp::Setp)},
      {"setp <cmp> [<bool>] [ftz] <f16>", Class::Compare, compareRow, op(AluOp::Setp)},
      {"setp <cmp> [<bool>] <bf16>", Class::Compare, compareRow, op(AluOp::Setp), 90, 78},
      {"set <cmp> [<bool>] u32|s32|f32 <scalar>", Class::Compare, compareRow, op(AluOp::Set)},
      {"set <cmp> [<bool>] ftz u32|s32|f32 f32", Class::Compare, compareRow, op(AluOp::Set)},
      {"set <cmp> [<bool>] [ftz] f16|u16|s16|u32|s32 f16", Class::Compare, compareRow, op(AluOp::Set)},
      {"set <cmp> [<bool>] bf16|u16|s16|u32|s32 bf16", Class::Compare, compareRow, op(AluOp::Set), 90, 78},
      {"set <cmp> [<bool>] [ftz] f16x2|u32|s32 f16x2", Class::Compare, compareRow, op(AluOp::Set)},
      {"set <cmp> [<bool>] bf16x2|u32|s32 bf16x2", Class::Compare, compareRow, op(AluOp::Set), 90, 78},
  };
  return rows;
}

std::span<const Row> kvc::sim::ptx::floatRows() {
  static const Row rows[] = {
      {"add [<rnd>] [ftz] [sat] f32", Class::Float32, uniform<2>, op(AluOp::Add)},
      {"sub [<rnd>] [ftz] [sat] f32", Class::Float32, uniform<2>, op(AluOp::Sub)},
      {"mul [<rnd>] [ftz] [sat] f32", Class::Float32, uniform<2>, op(AluOp::MulLo)},
      {"fma <rnd> [ftz] [sat] f32", Class::Float32, uniform<3>, op(AluOp::Fma)},
      {"mad [<rnd>] [ftz] [sat] f32", Class::Float32, uniform<3>, op(AluOp::Fma)},
      {"add [rn] [ftz] f32x2", Class::Float32, uniform<2>, op(AluOp::Add), 100, 86},
      {"sub [rn] [ftz] f32x2", Class::Float32, uniform<2>, op(AluOp::Sub), 100, 86},
      {"mul [rn] [ftz] f32x2", Class::Float32, uniform<2>, op(AluOp::MulLo), 100, 86},
      {"fma rn [ftz] f32x2", Class::Float32, uniform<3>, op(AluOp::Fma), 100, 86},
      {"add [<rnd>] f64", Class::Float64, uniform<2>, op(AluOp::Add)},
      {"sub [<rnd>] f64", Class::Float64, uniform<2>, op(AluOp::Sub)},
      {"mul [<rnd>] f64", Class::Float64, uniform<2>, op(AluOp::MulLo)},
      {"fma <rnd> f64", Class::Float64, uniform<3>, op(AluOp::Fma)},
      {"mad <rnd> f64", Class::Float64, uniform<3>, op(AluOp::Fma)},
      {"div <rnd> [ftz] f32", Class::Special, uniform<2>, op(AluOp::Div)},
      {"div approx|full [ftz] f32", Class::Special, uniform<2>, op(AluOp::DivApprox)},
      {"div <rnd> f64", Class::Float64, uniform<2>, op(AluOp::Div)},
      {"rcp <rnd> [ftz] f32", Class::Special, uniform<1>, op(AluOp::Rcp)},
      {"rcp approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::Rcp)},
      {"rcp <rnd> f64", Class::Float64, uniform<1>, op(AluOp::Rcp)},
      {"rcp approx ftz f64", Class::Special, uniform<1>, op(AluOp::RcpApprox64)},
      {"sqrt <rnd> [ftz] f32", Class::Special, uniform<1>, op(AluOp::Sqrt)},
      {"sqrt approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::Sqrt)},
      {"sqrt <rnd> f64", Class::Float64, uniform<1>, op(AluOp::Sqrt)},
      {"rsqrt approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::RsqrtApprox)},
      {"rsqrt approx [ftz] f64", Class::Special, uniform<1>, op(AluOp::RsqrtApprox)},
      {"sin approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::SinApprox)},
      {"cos approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::CosApprox)},
      {"lg2 approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::Lg2Approx)},
      {"ex2 approx [ftz] f32", Class::Special, uniform<1>, op(AluOp::Ex2Approx)},
      {"tanh approx f32", Class::Special, uniform<1>, op(AluOp::TanhApprox), 75, 70},
      {"abs [ftz] f32", Class::Float32, uniform<1>, op(AluOp::Abs)},
      {"neg [ftz] f32", Class::Float32, uniform<1>, op(AluOp::Neg)},
      {"abs f64", Class::Float64, uniform<1>, op(AluOp::Abs)},
      {"neg f64", Class::Float64, uniform<1>, op(AluOp::Neg)},
      {"copysign f32", Class::Float32, uniform<2>, op(AluOp::Copysign)},
      {"copysign f64", Class::Float64, uniform<2>, op(AluOp::Copysign)},
      {"min [ftz] [NaN] [xorsign] [abs] f32", Class::Float32, floatMinMax, op(AluOp::Min)},
      {"max [ftz] [NaN] [xorsign] [abs] f32", Class::Float32, floatMinMax, op(AluOp::Max)},
      {"min f64", Class::Float64, floatMinMax, op(AluOp::Min)},
      {"max f64", Class::Float64, floatMinMax, op(AluOp::Max)},
      {"testp finite|infinite|number|notanumber|normal|subnormal <f>", Class::Compare, testpRow},
  };
  return rows;
}

std::span<const Row> kvc::sim::ptx::halfRows() {
  static const Row rows[] = {
      {"add [rn] [ftz] [sat] <f16>", Class::Half, uniform<2>, op(AluOp::Add)},
      {"sub [rn] [ftz] [sat] <f16>", Class::Half, uniform<2>, op(AluOp::Sub)},
      {"mul [rn] [ftz] [sat] <f16>", Class::Half, uniform<2>, op(AluOp::MulLo)},
      {"fma rn [ftz] [sat|relu] <f16>", Class::Half, uniform<3>, op(AluOp::Fma)},
      {"add [rn] <bf16>", Class::Half, uniform<2>, op(AluOp::Add), 90, 78},
      {"sub [rn] <bf16>", Class::Half, uniform<2>, op(AluOp::Sub), 90, 78},
      {"mul [rn] <bf16>", Class::Half, uniform<2>, op(AluOp::MulLo), 90, 78},
      {"fma rn [relu] <bf16>", Class::Half, uniform<3>, op(AluOp::Fma), 80, 70},
      {"neg [ftz] <f16>", Class::Half, halfSign, op(AluOp::Neg)},
      {"neg <bf16>", Class::Half, halfSign, op(AluOp::Neg), 80, 70},
      {"abs [ftz] <f16>", Class::Half, halfSign, op(AluOp::Abs)},
      {"abs <bf16>", Class::Half, halfSign, op(AluOp::Abs), 80, 70},
      {"min [ftz] [NaN] [xorsign] [abs] <f16>", Class::Half, floatMinMax, op(AluOp::Min), 80, 70},
      {"max [ftz] [NaN] [xorsign] [abs] <f16>", Class::Half, floatMinMax, op(AluOp::Max), 80, 70},
      {"min [NaN] [xorsign] [abs] <bf16>", Class::Half, floatMinMax, op(AluOp::Min), 80, 70},
      {"max [NaN] [xorsign] [abs] <bf16>", Class::Half, floatMinMax, op(AluOp::Max), 80, 70},
      {"tanh approx <f16>", Class::Special, uniform<1>, op(AluOp::TanhApprox), 75, 70},
      {"tanh approx <bf16>", Class::Special, uniform<1>, op(AluOp::TanhApprox), 90, 78},
      {"ex2 approx <f16>", Class::Special, uniform<1>, op(AluOp::Ex2Approx), 75, 70},
      {"ex2 approx ftz <bf16>", Class::Special, uniform<1>, op(AluOp::Ex2Approx), 90, 78},
  };
  return rows;
}

std::span<const Row> kvc::sim::ptx::moveRows() {
  static const Row rows[] = {
      {"mov <mov>", Class::Move, movRow, op(AluOp::Mov)},
      {"selp <scalar>", Class::Move, selpRow},
      {"slct [ftz] <scalar> s32|f32", Class::Move, slctRow},
      {"prmt b32 [<prmt>]", Class::Logic, prmtRow},
  };
  return rows;
}

//===- Atoms.cpp - The table of matrix instructions -----------------------===//
#include "kvc/Target/Atoms.h"

using namespace kvc;

namespace {
using enum Axis;

// A word of 32 bits holds neighbours along the summed dimension. Lane l = 4 g + t: groups of four lanes hold a row of A
// (a column of B), t counts the words along it; a second half of k follows after the words of all four.
constexpr Mode quadsA16[] = {{2, Register, 1, Column, 1},
                             {2, Register, 2, Row, 8},
                             {2, Register, 4, Column, 8},
                             {4, Lane, 1, Column, 2},
                             {8, Lane, 4, Row, 1}};
constexpr Mode quadsB16[] = {
    {2, Register, 1, Row, 1}, {2, Register, 2, Row, 8}, {4, Lane, 1, Row, 2}, {8, Lane, 4, Column, 1}};
constexpr Mode quadsA8[] = {{4, Register, 1, Column, 1},
                            {2, Register, 4, Row, 8},
                            {2, Register, 8, Column, 16},
                            {4, Lane, 1, Column, 4},
                            {8, Lane, 4, Row, 1}};
constexpr Mode quadsB8[] = {
    {4, Register, 1, Row, 1}, {2, Register, 4, Row, 16}, {4, Lane, 1, Row, 4}, {8, Lane, 4, Column, 1}};
constexpr Mode quadsD[] = {
    {2, Register, 1, Column, 1}, {2, Register, 2, Row, 8}, {4, Lane, 1, Column, 2}, {8, Lane, 4, Row, 1}};

// 16 lanes count rows (columns of B), those beyond them runs of k; of 32 values of k the upper half are further
// registers, so that two results side by side are an operand.
constexpr Mode wave64A[] = {{4, Register, 1, Column, 1}, {16, Lane, 1, Row, 1}, {4, Lane, 16, Column, 4}};
constexpr Mode wave64B[] = {{4, Register, 1, Row, 1}, {16, Lane, 1, Column, 1}, {4, Lane, 16, Row, 4}};
constexpr Mode wave64LongA[] = {
    {4, Register, 1, Column, 1}, {2, Register, 4, Column, 16}, {16, Lane, 1, Row, 1}, {4, Lane, 16, Column, 4}};
constexpr Mode wave64LongB[] = {
    {4, Register, 1, Row, 1}, {2, Register, 4, Row, 16}, {16, Lane, 1, Column, 1}, {4, Lane, 16, Row, 4}};

// The same with 32 lanes that count rows.
constexpr Mode wave64TallA[] = {{4, Register, 1, Column, 1}, {32, Lane, 1, Row, 1}, {2, Lane, 32, Column, 4}};
constexpr Mode wave64TallB[] = {{4, Register, 1, Row, 1}, {32, Lane, 1, Column, 1}, {2, Lane, 32, Row, 4}};
constexpr Mode wave64TallD[] = {
    {4, Register, 1, Column, 1}, {4, Register, 4, Column, 8}, {32, Lane, 1, Row, 1}, {2, Lane, 32, Column, 4}};
constexpr Mode wave64TallLongA[] = {
    {4, Register, 1, Column, 1}, {2, Register, 4, Column, 8}, {32, Lane, 1, Row, 1}, {2, Lane, 32, Column, 4}};
constexpr Mode wave64TallLongB[] = {
    {4, Register, 1, Row, 1}, {2, Register, 4, Row, 8}, {32, Lane, 1, Column, 1}, {2, Lane, 32, Row, 4}};

// 16 rows again, of warps of 32 lanes.
constexpr Mode wave32A[] = {{8, Register, 1, Column, 1}, {16, Lane, 1, Row, 1}, {2, Lane, 16, Column, 8}};
constexpr Mode wave32B[] = {{8, Register, 1, Row, 1}, {16, Lane, 1, Column, 1}, {2, Lane, 16, Row, 8}};

// Operands are held twice. The instruction's result has even columns in the lower half of the lanes and odd ones in the
// upper half: columns are numbered so that either half has eight neighbours.
constexpr Mode twiceA[] = {{16, Register, 1, Column, 1}, {16, Lane, 1, Row, 1}, {2, Lane, 16, None, 0}};
constexpr Mode twiceB[] = {
    {16, Register, 1, Row, 1}, {2, Lane, 1, Column, 8}, {8, Lane, 2, Column, 1}, {2, Lane, 16, None, 0}};

constexpr MmaAtom atoms[] = {
    {"m16n8k16.f16", 16, 8, 16, AtomElement::F16, AtomElement::F32, quadsA16, quadsB16, quadsD},
    {"m16n8k16.bf16", 16, 8, 16, AtomElement::BF16, AtomElement::F32, quadsA16, quadsB16, quadsD},
    {"m16n8k32.i8", 16, 8, 32, AtomElement::I8, AtomElement::I32, quadsA8, quadsB8, quadsD},
    {"m16n16k16w64.f16", 16, 16, 16, AtomElement::F16, AtomElement::F32, wave64A, wave64B, wave64A},
    {"m16n16k16w64.bf16", 16, 16, 16, AtomElement::BF16, AtomElement::F32, wave64A, wave64B, wave64A},
    {"m16n16k32w64.f16", 16, 16, 32, AtomElement::F16, AtomElement::F32, wave64LongA, wave64LongB, wave64A},
    {"m16n16k32w64.bf16", 16, 16, 32, AtomElement::BF16, AtomElement::F32, wave64LongA, wave64LongB, wave64A},
    {"m32n32k8w64.f16", 32, 32, 8, AtomElement::F16, AtomElement::F32, wave64TallA, wave64TallB, wave64TallD},
    {"m32n32k8w64.bf16", 32, 32, 8, AtomElement::BF16, AtomElement::F32, wave64TallA, wave64TallB, wave64TallD},
    {"m32n32k16w64.f16", 32, 32, 16, AtomElement::F16, AtomElement::F32, wave64TallLongA, wave64TallLongB, wave64TallD},
    {"m32n32k16w64.bf16", 32, 32, 16, AtomElement::BF16, AtomElement::F32, wave64TallLongA, wave64TallLongB,
     wave64TallD},
    {"m16n16k16w32.f16", 16, 16, 16, AtomElement::F16, AtomElement::F32, wave32A, wave32B, wave32A},
    {"m16n16k16w32.bf16", 16, 16, 16, AtomElement::BF16, AtomElement::F32, wave32A, wave32B, wave32A},
    {"m16n16k16w32x2.f16", 16, 16, 16, AtomElement::F16, AtomElement::F32, twiceA, twiceB, wave32A},
    {"m16n16k16w32x2.bf16", 16, 16, 16, AtomElement::BF16, AtomElement::F32, twiceA, twiceB, wave32A},
};
} // namespace

static constexpr GroupMmaAtom groupAtoms[] = {
    {"m64k16.f16", 4, 64, 16, 256, "m16n8k16.f16"},
    {"m64k16.bf16", 4, 64, 16, 256, "m16n8k16.bf16"},
};

int64_t kvc::bitsOf(AtomElement element) {
  switch (element) {
  case AtomElement::F16:
  case AtomElement::BF16:
    return 16;
  case AtomElement::I8:
    return 8;
  case AtomElement::F32:
  case AtomElement::I32:
    return 32;
  }
  llvm_unreachable("all elements are listed");
}

llvm::ArrayRef<MmaAtom> kvc::getMmaAtoms() { return atoms; }

const MmaAtom *kvc::lookupMmaAtom(llvm::StringRef name) {
  for (const MmaAtom &atom : atoms) {
    if (atom.name == name) {
      return &atom;
    }
  }
  return nullptr;
}

const MmaAtom *kvc::pairedAtom(const MmaAtom &atom) {
  const Layout a = atom.a().product(Layout({{2, Axis::Register, 1, Axis::Column, 1}})),
               b = atom.b().product(Layout({{2, Axis::Register, 1, Axis::Row, 1}}));
  for (const MmaAtom &other : atoms) {
    if (other.operand == atom.operand && other.accumulator == atom.accumulator && other.a() == a && other.b() == b &&
        other.d() == atom.d()) {
      return &other;
    }
  }
  return nullptr;
}

const GroupMmaAtom *kvc::lookupGroupMmaAtom(llvm::StringRef name) {
  for (const GroupMmaAtom &atom : groupAtoms) {
    if (atom.name == name) {
      return &atom;
    }
  }
  return nullptr;
}

Layout kvc::loadedMatrices(int64_t count, bool transposed) {
  Layout matrix(
      {{2, Axis::Register, 1, Axis::Column, 1}, {4, Axis::Lane, 1, Axis::Column, 2}, {8, Axis::Lane, 4, Axis::Row, 1}});
  if (transposed) {
    matrix = matrix.transposed();
  }
  return matrix.product(Layout({{count, Axis::Register, 1, Axis::Row, 1}}));
}

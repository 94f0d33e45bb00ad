//===- Atoms.cpp - The table of matrix instructions -----------------------===//
#include "kvc/Target/Atoms.h"

using namespace kvc;

static constexpr MmaAtom atoms[] = {
    {"m16n8k16.f16", 16, 8, 16, AtomElement::F16, AtomElement::F32},
    {"m16n8k16.bf16", 16, 8, 16, AtomElement::BF16, AtomElement::F32},
    {"m16n8k32.i8", 16, 8, 32, AtomElement::I8, AtomElement::I32},
};

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

const GroupMmaAtom *kvc::lookupGroupMmaAtom(llvm::StringRef name) {
  for (const GroupMmaAtom &atom : groupAtoms) {
    if (atom.name == name) {
      return &atom;
    }
  }
  return nullptr;
}

// A word of 32 bits holds neighbours along the summed dimension. Lane l = 4 g + t: groups of four lanes hold a row of A
// (a column of B), t counts the words along it; a second half of k follows after the words of all four.

Layout MmaAtom::a() const {
  int64_t word = 32 / bitsOf(operand);
  return Layout({{word, Axis::Register, 1, Axis::Column, 1},
                 {2, Axis::Register, word, Axis::Row, 8},
                 {2, Axis::Register, 2 * word, Axis::Column, 4 * word},
                 {4, Axis::Lane, 1, Axis::Column, word},
                 {8, Axis::Lane, 4, Axis::Row, 1}});
}

Layout MmaAtom::b() const {
  int64_t word = 32 / bitsOf(operand);
  return Layout({{word, Axis::Register, 1, Axis::Row, 1},
                 {2, Axis::Register, word, Axis::Row, 4 * word},
                 {4, Axis::Lane, 1, Axis::Row, word},
                 {8, Axis::Lane, 4, Axis::Column, 1}});
}

Layout MmaAtom::d() const {
  return Layout({{2, Axis::Register, 1, Axis::Column, 1},
                 {2, Axis::Register, 2, Axis::Row, 8},
                 {4, Axis::Lane, 1, Axis::Column, 2},
                 {8, Axis::Lane, 4, Axis::Row, 1}});
}

Layout kvc::loadedMatrices(int64_t count, bool transposed) {
  Layout matrix(
      {{2, Axis::Register, 1, Axis::Column, 1}, {4, Axis::Lane, 1, Axis::Column, 2}, {8, Axis::Lane, 4, Axis::Row, 1}});
  if (transposed) {
    matrix = matrix.transposed();
  }
  return matrix.product(Layout({{count, Axis::Register, 1, Axis::Row, 1}}));
}

//===- Atoms.h - Matrix instructions as rows of data ------------*- C++ -*-===//
//
// One row for each shape and type of a matrix instruction that a team of lanes has: its size, its element types and the
// layouts of its three operands. Lowerings look rows up; none asks which instruction it is.
//
//===----------------------------------------------------------------------===//
#ifndef KVC_TARGET_ATOMS_H
#define KVC_TARGET_ATOMS_H

#include "kvc/Target/Layout.h"
#include "llvm/ADT/StringRef.h"

namespace kvc {

enum class AtomElement : uint8_t { F16, BF16, I8, F32, I32 };

/// D[m, n] = C[m, n] + sum over k of A[m, k] B[k, n], by the lanes of one warp. Rows are query rows in attention: where
/// an instruction's result is an operand of the next one only as its transpose, the table has the exchanged instruction
/// (D^T = B^T A^T), and the order of k and of columns that suits, which A and B, or B and D, have in common.
struct MmaAtom {
  /// As in `tile.lane_mma`.
  llvm::StringLiteral name;
  int64_t m, n, k;
  /// Type of A and B, type of C and D.
  AtomElement operand, accumulator;
  llvm::ArrayRef<Mode> aModes, bModes, dModes;

  /// Which element a lane's register holds, registers counted in elements: A has rows m and columns k, B rows k and
  /// columns n, D rows m and columns n.
  Layout a() const { return Layout(aModes); }
  Layout b() const { return Layout(bModes); }
  Layout d() const { return Layout(dModes); }
};

/// The same by a group of warps that read B, and may read A, in staging memory (`tile.group_mma`).
struct GroupMmaAtom {
  llvm::StringLiteral name;
  /// Warps of a group, rows of all of them, elements of one step along the summed dimension, most columns.
  int64_t warps, m, k, maxN;
  /// The row of the other table whose layouts each warp's registers have: its rows below those of the warp before, its
  /// columns side by side.
  llvm::StringLiteral ofWarp;
};

int64_t bitsOf(AtomElement element);

/// All rows.
llvm::ArrayRef<MmaAtom> getMmaAtoms();
/// The row of that name; null when there is none.
const MmaAtom *lookupMmaAtom(llvm::StringRef name);
/// The row of an instruction that does two steps of `atom` at once: their operands side by side are its operands. Null
/// when there is none.
const MmaAtom *pairedAtom(const MmaAtom &atom);

/// The row of that name in the table of group atoms; null when there is none.
const GroupMmaAtom *lookupGroupMmaAtom(llvm::StringRef name);

/// Layout of `count` 8 x 8 matrices of 16-bit elements as tile.load_matrices leaves them: rows of all matrices one
/// below the other.
Layout loadedMatrices(int64_t count, bool transposed);

} // namespace kvc

#endif // KVC_TARGET_ATOMS_H

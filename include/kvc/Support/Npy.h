//===- Npy.h - NumPy array files --------------------------------*- C++ -*-===//
//
// Reads and writes .npy files of little-endian numbers in C order (format versions 1 to 3).
//
//===----------------------------------------------------------------------===//
#ifndef KVC_SUPPORT_NPY_H
#define KVC_SUPPORT_NPY_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

/// An array. `kind` and `itemBytes` are those of NumPy's type string: f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1.
struct NpyArray {
  char kind = 'f';
  int64_t itemBytes = 4;
  llvm::SmallVector<int64_t> shape;
  std::vector<char> bytes;

  int64_t size() const { return itemBytes ? static_cast<int64_t>(bytes.size()) / itemBytes : 0; }
  bool isFloat() const { return kind == 'f'; }
  /// Element i as a double (of kind f) or an integer (of the other kinds).
  double floatAt(int64_t i) const;
  int64_t intAt(int64_t i) const;

  static NpyArray ofFloats(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values, int64_t itemBytes);
  static NpyArray ofInts(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values, int64_t itemBytes);
};

/// Reads a file. The error says what was expected, with the path.
llvm::Expected<NpyArray> readNpy(llvm::StringRef path);
/// The bytes of a file with the array.
std::string formatNpy(const NpyArray &array);
/// Writes a file (see writeOutputs).
llvm::Error writeNpy(llvm::StringRef path, const NpyArray &array);

} // namespace kvc

#endif // KVC_SUPPORT_NPY_H

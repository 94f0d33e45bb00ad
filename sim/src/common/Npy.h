//===- Npy.h - NumPy array files without LLVM -------------------*- C++ -*-===//
//
// Reads and writes .npy files in C order. Faults name the path.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_COMMON_NPY_H
#define KVCSIM_COMMON_NPY_H

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::sim {

/// An array; `type` is NumPy's type string, such as "<f4".
struct NpyArray {
  std::string type;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};

NpyArray readNpy(const std::string &path);
/// Writes a file as a whole or not at all.
void writeNpy(const std::string &path, const NpyArray &array);

} // namespace kvc::sim

#endif // KVCSIM_COMMON_NPY_H

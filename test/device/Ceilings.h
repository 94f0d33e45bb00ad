//===- Ceilings.h - What a GPU can do at most -------------------*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_CEILINGS_H
#define KVC_TEST_DEVICE_CEILINGS_H

#include "Common.h"

namespace kvc::device {

/// Bytes per second that a copy from one buffer of `bytes` to another reads and writes together; median of 9.
double copyBandwidth(const DriverContext &gpu, size_t bytes);

/// "library" and "tflops" of a product of two square f16 matrices with sums in f32 by cuBLAS, median of 9; or
/// "missing", which says what was looked for. The first element of the product is checked.
Json gemmThroughput(const DriverContext &gpu, int size);

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_CEILINGS_H

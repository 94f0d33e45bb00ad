//===- Benchmark.h - Speed of attention on a GPU ----------------*- C++ -*-===//
#ifndef KVC_TEST_DEVICE_BENCHMARK_H
#define KVC_TEST_DEVICE_BENCHMARK_H

#include "Common.h"

namespace kvc::device {

/// Writes NAME.mlir of every measured module into a folder.
void writeBenchmarks(const std::string &folder);

/// Measures the modules of a folder (NAME.kvca): decode over 8 sequences of 32768 slots and causal prefill of 4096
/// rows, 32 query and 8 KV heads of 128 channels, beside a copy and a product of matrices on the same device. `small`:
/// sizes for a simulator. The text says the same to people.
Json runBenchmarks(const std::string &device, const std::string &folder, bool small);

} // namespace kvc::device

#endif // KVC_TEST_DEVICE_BENCHMARK_H

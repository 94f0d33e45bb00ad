//===- Ceilings.h - What the machine can do at most -------------*- C++ -*-===//
#ifndef KVC_TOOLS_KVC_BENCH_CEILINGS_H
#define KVC_TOOLS_KVC_BENCH_CEILINGS_H

namespace kvc::bench {

/// Bytes per second that `threads` threads read from memory: sums over a buffer far larger than the caches. Median
/// of 5.
double readBandwidth(int threads);

/// Multiply-add pairs counted as 2 operations: operations per second of `threads` threads with bf16 operands and f32
/// accumulators in registers. Median of 5. Zero where the processor has no such instruction.
double bf16Throughput(int threads);

} // namespace kvc::bench

#endif // KVC_TOOLS_KVC_BENCH_CEILINGS_H

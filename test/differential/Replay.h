//===- Replay.h - One written case, or what is left of it -------*- C++ -*-===//
#ifndef KVC_TEST_DIFFERENTIAL_REPLAY_H
#define KVC_TEST_DIFFERENTIAL_REPLAY_H

#include "Suite.h"

namespace kvc::differential {

/// An argument of a written case: the name of its file, NAME.npy, or for a batch of its three.
inline constexpr const char *arrayAttr = "kvc.array";
/// A result of a written case: bounds of its errors, and 1 for counts (Compare.h).
inline constexpr const char *boundAttr = "kvc.bound";

/// Exit statuses of `replay`.
enum class ReplayStatus { same = 0, differs = 1, other = 2 };

/// Runs @case of the module `options.replayFile` on the device and the oracle, with the arrays of `options.arrayFolder`
/// cut to the sizes that the arguments still have, and compares. Anything but results is `other`: a module that does
/// not verify or compile, an error of either side.
ReplayStatus replay(const SuiteOptions &options);

} // namespace kvc::differential

#endif // KVC_TEST_DIFFERENTIAL_REPLAY_H

//===- DeviceRun.h - Runs a function of an artifact on arrays ---*- C++ -*-===//
#ifndef KVC_DRIVER_DEVICERUN_H
#define KVC_DRIVER_DEVICERUN_H

#include "kvc/Support/Npy.h"
#include "kvc_runtime.hpp"

#include <string>
#include <vector>

namespace kvc {

struct DeviceRunOptions {
  std::string device = "cpu";
  /// 0: one per CPU that the process may use.
  int threads = 0;
  /// Sequences of each cache; -1: as many as the batches name.
  int64_t sequences = -1;
  /// Slots that each table of a cache can hold.
  int64_t capacity = 4096;
  /// Pages of each cache's pool; 0: every table can be full.
  int64_t cachePages = 0;
};

/// The text of the runtime's last error.
llvm::Error runtimeError();

llvm::Expected<runtime::DeviceHandle> openDevice(const DeviceRunOptions &options);

/// The targets to compile for: `forced` where it is not empty, else the best that the device supports. Empty: the best
/// of this machine, whose CPU the device is.
std::vector<std::string> targetsOf(const kvc_device_t *device, const std::string &forced);

/// What a function returned.
struct DeviceResults {
  /// Tensors and numbers, in order.
  std::vector<NpyArray> arrays;
  /// Caches among the results, which are not arrays.
  int64_t caches = 0;
};

/// Runs `function`. `inputs` are in the order of the arguments: one array for a tensor or a number, three for a batch
/// (query_offsets, sequences, positions), none for a cache, which starts empty. Numbers are converted to the type of
/// the argument; integers that it cannot hold are an error.
llvm::Expected<DeviceResults> runOnDevice(kvc_device_t *device, kvc_module_t *module, llvm::StringRef function,
                                          llvm::ArrayRef<NpyArray> inputs, const DeviceRunOptions &options);

} // namespace kvc

#endif // KVC_DRIVER_DEVICERUN_H

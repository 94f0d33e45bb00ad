//===- DriverTypes.h - Types of the CUDA driver API -------------*- C++ -*-===//
//
// The part of the driver's binary interface that the simulator implements, declared anew: no CUDA header is needed.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_CUDA_DRIVERTYPES_H
#define KVCSIM_CUDA_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace kvc::sim {
struct Stream;
} // namespace kvc::sim

namespace kvc::sim::cuda {

enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  FileNotFound = 301,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  LaunchFailed = 719,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureUnmatched = 903,
  StreamCaptureImplicit = 906,
  StreamCaptureWrongThread = 908,
  InvalidClusterSize = 912,
  Unknown = 999,
};

using DevicePointer = unsigned long long;

enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxBlockDimX = 2,
  MaxBlockDimY = 3,
  MaxBlockDimZ = 4,
  MaxGridDimX = 5,
  MaxGridDimY = 6,
  MaxGridDimZ = 7,
  MaxSharedMemoryPerBlock = 8,
  TotalConstantMemory = 9,
  WarpSize = 10,
  MaxPitch = 11,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  GpuOverlap = 15,
  MultiprocessorCount = 16,
  KernelExecTimeout = 17,
  Integrated = 18,
  CanMapHostMemory = 19,
  ComputeMode = 20,
  ConcurrentKernels = 31,
  EccEnabled = 32,
  PciBusId = 33,
  PciDeviceId = 34,
  MemoryClockRate = 36,
  GlobalMemoryBusWidth = 37,
  L2CacheSize = 38,
  MaxThreadsPerMultiprocessor = 39,
  AsyncEngineCount = 40,
  UnifiedAddressing = 41,
  PciDomainId = 50,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  StreamPrioritiesSupported = 78,
  MaxSharedMemoryPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  ManagedMemory = 83,
  CooperativeLaunch = 95,
  MaxSharedMemoryPerBlockOptin = 97,
  HostRegisterSupported = 99,
  MaxBlocksPerMultiprocessor = 106,
  ReservedSharedMemoryPerBlock = 111,
  MemoryPoolsSupported = 115,
  ClusterLaunch = 120,
  TensorMapAccessSupported = 127,
};

enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionSharedBytes = 1,
  FunctionConstBytes = 2,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionPtxVersion = 5,
  FunctionBinaryVersion = 6,
  FunctionMaxDynamicShared = 8,
  FunctionSharedCarveout = 9,
  FunctionClusterSizeMustBeSet = 10,
  FunctionClusterWidth = 11,
  FunctionClusterHeight = 12,
  FunctionClusterDepth = 13,
  FunctionNonPortableCluster = 14,
  FunctionClusterPolicy = 15,
};

enum LaunchAttributeId : int {
  LaunchIgnore = 0,
  LaunchCooperative = 2,
  LaunchClusterDimension = 4,
  LaunchClusterPolicy = 5,
  LaunchProgrammaticSerialization = 6,
  LaunchPriority = 8,
  LaunchSharedCarveout = 14,
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    int number;
    unsigned dimensions[3];
  } value;
};

struct Context;
struct ModuleHandle;
struct FunctionHandle;

struct LaunchConfiguration {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream *stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

struct DeviceProperties;

/// Parameters of a 2D copy, as the driver has them.
struct Copy2D {
  size_t sourceX, sourceY;
  int sourceType;
  const void *sourceHost;
  DevicePointer sourceDevice;
  void *sourceArray;
  size_t sourcePitch;
  size_t destinationX, destinationY;
  int destinationType;
  void *destinationHost;
  DevicePointer destinationDevice;
  void *destinationArray;
  size_t destinationPitch;
  size_t widthBytes, height;
};
enum MemoryType : int { MemoryHost = 1, MemoryDevice = 2, MemoryArray = 3, MemoryUnified = 4 };

} // namespace kvc::sim::cuda

#endif // KVCSIM_CUDA_DRIVERTYPES_H

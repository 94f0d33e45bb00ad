//===- HipTypes.h - The binary interface of HIP 6 ---------------*- C++ -*-===//
//
// Our own declarations of the numbers and structures that programs and the library share.
//
//===----------------------------------------------------------------------===//
#ifndef KVCSIM_HIP_HIPTYPES_H
#define KVCSIM_HIP_HIPTYPES_H

#include <cstddef>
#include <cstdint>

namespace kvc::sim::hip {

enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  InvalidConfiguration = 9,
  InvalidDevicePointer = 17,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  FileNotFound = 301,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  LaunchFailed = 719,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureUnmatched = 903,
  StreamCaptureImplicit = 906,
  StreamCaptureWrongThread = 908,
  Unknown = 999,
};

/// Numbers of hipDeviceAttribute_t.
enum Attribute : int {
  EccEnabled = 0,
  AsyncEngineCount = 2,
  CanMapHostMemory = 3,
  ClockRate = 5,
  ComputeMode = 6,
  ConcurrentKernels = 8,
  CooperativeLaunch = 10,
  Integrated = 16,
  KernelExecTimeout = 18,
  L2CacheSize = 19,
  ComputeCapabilityMajor = 23,
  ManagedMemory = 24,
  MaxBlockDimX = 26,
  MaxBlockDimY = 27,
  MaxBlockDimZ = 28,
  MaxGridDimX = 29,
  MaxGridDimY = 30,
  MaxGridDimZ = 31,
  MaxThreadsPerBlock = 56,
  MaxThreadsPerMultiprocessor = 57,
  MaxPitch = 58,
  MemoryBusWidth = 59,
  MemoryClockRate = 60,
  ComputeCapabilityMinor = 61,
  MultiprocessorCount = 63,
  PciBusId = 67,
  PciDeviceId = 68,
  PciDomainId = 69,
  MaxRegistersPerBlock = 71,
  MaxSharedMemoryPerBlock = 74,
  TotalConstantMemory = 83,
  UnifiedAddressing = 85,
  WarpSize = 87,
  HostRegisterSupported = 90,
  MaxSharedMemoryPerMultiprocessor = 10002,
};

enum FunctionAttribute : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1,
  FunctionConstBytes = 2,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionMaxDynamicShared = 8,
};

/// hipDeviceProp_tR0600.
struct DeviceProperties {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
  /// Limits of textures and surfaces, which compute chips do not have.
  int textureLimits[40];
  size_t surfaceAlignment;
  int concurrentKernels, eccEnabled, pciBusId, pciDeviceId, pciDomainId, tccDriver, asyncEngineCount;
  int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupId, hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
  int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, others[12];
  int reserved[63], hipReserved[32];
  char gcnArchName[256];
  size_t maxSharedMemoryPerMultiProcessor;
  int clockInstructionRate;
  unsigned arch;
  unsigned *flushControls[2];
  int cooperativeMultiDevice[4];
  int isLargeBar, asicRevision;
};
static_assert(offsetof(DeviceProperties, gcnArchName) == 1160);
static_assert(sizeof(DeviceProperties) == 1472);

} // namespace kvc::sim::hip

#endif // KVCSIM_HIP_HIPTYPES_H

// SPDX-License-Identifier: Apache-2.0
//
// The part of NVML's interface that is implemented, after NVIDIA's NVML API Reference. The compiler
// packages of the toolkit do not contain nvml.h.
#pragma once

extern "C" {

enum nvmlReturn_t {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_UNKNOWN = 999
};

using nvmlDevice_t = struct nvmlDevice_st *;

struct nvmlMemory_t {
  unsigned long long total, free, used;  // bytes
};

struct nvmlMemory_v2_t {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};

// Per cent of the last sample period.
struct nvmlUtilization_t {
  unsigned int gpu, memory;
};

// Per cent of the time since the last sample.
struct nvmlProcessUtilizationSample_t {
  unsigned int pid;
  unsigned long long timeStamp;  // microseconds
  unsigned int smUtil, memUtil, encUtil, decUtil;
};

struct nvmlPciInfo_t {
  char busIdLegacy[16];  // "0000:01:00.0"
  unsigned int domain, bus, device;
  unsigned int pciDeviceId, pciSubSystemId;
  char busId[32];  // "00000000:01:00.0"
};

struct nvmlProcessInfo_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;  // bytes
  unsigned int gpuInstanceId, computeInstanceId;
};
}

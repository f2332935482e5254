// SPDX-License-Identifier: Apache-2.0
//
// The interface to what measures the GPUs: NVML in the daemon, numbers in tests. Sizes are in
// bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/managed/messages.h"

namespace ckpt::manager {

struct MeteredGpu {
  std::string uuid, name;
  u64 total = 0;
  u32 apis = managed::kCuda;  // the APIs that it serves
  bool measured = true;       // false: read() returns the capacity, and no processes
};

struct Reading {
  u64 free = 0;
  struct Process {
    i32 pid = 0;
    u64 bytes = 0;
  };
  std::optional<std::vector<Process>> processes;  // no value: the driver does not report them
};

// Of a GPU with all its programs.
struct Power {
  std::optional<double> joules;  // since the driver was loaded; no value: older than Volta
  double watts = 0;
};

// Shares of the last sample period, from 0 to 1.
struct Utilization {
  double kernels = 0;  // one or more kernels ran
  double memory = 0;   // the GPU's memory was read or written
};

// For which part of a period a process ran kernels.
struct KernelShare {
  i32 pid = 0;
  double share = 0;  // from 0 to 1
};

class Meter {
 public:
  virtual ~Meter() = default;
  virtual const std::vector<MeteredGpu> &gpus() const = 0;
  virtual Result<Reading> read(size_t gpu) = 0;
  // No value: the device has no sensor, or it is not measured.
  virtual std::optional<Power> power(size_t gpu) const {
    (void)gpu;
    return {};
  }
  // No value: the driver does not report it, as with MIG, or the device is not measured.
  virtual std::optional<Utilization> utilization(size_t gpu) const {
    (void)gpu;
    return {};
  }
  // Of all periods since the last call; empty: no kernel ran, or the driver does not report it.
  virtual std::vector<KernelShare> kernel_shares(size_t gpu) {
    (void)gpu;
    return {};
  }
};

}  // namespace ckpt::manager

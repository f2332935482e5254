// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver of this node in the program's own process, after a move to this node (native.h).
//
//   none ── start ──▶ running ── park ──▶ parked ── start ──▶ running
//
// A driver cannot be unloaded. So it is loaded once, and parked by its own checkpoint while the
// program is suspended, dumped, or uses other devices: nothing of a device is in the process then
// (driver-checkpoint/driver_checkpoint.h). It has no objects when it is parked, because the
// ledger makes them again.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "remote/cuda/server/device_memory.h"
#include "remote/cuda/server/device_numbers.h"

namespace ckpt::remote::cuda {

class OwnDriver {
 public:
  // What ckpt-cuda-proxy says of this node: the driver's file, and the UUIDs of the devices; none:
  // all of them.
  struct Offer {
    std::string path;
    std::vector<std::string> devices;
  };
  // The driver runs, and these are its numbers of the devices. An error says why it cannot be used.
  Result<DeviceNumbers> start(const Offer &offer);
  // Nothing of a device is in the process any more.
  Result<> park();
  // The driver, or another file of its package.
  bool answers_for(std::string_view path) const;

  // The addresses that it has reserved, in all of its states.
  Arena arena;

 private:
  Result<> load(const std::string &path);

  std::string path_;  // empty: none is loaded
  bool unusable_ = false;
};

OwnDriver &own_driver();

}  // namespace ckpt::remote::cuda

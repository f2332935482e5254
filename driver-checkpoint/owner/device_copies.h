// SPDX-License-Identifier: Apache-2.0
//
// Copies of device memory in other memory of the same device. A device copies to itself much faster
// than to the host, so a program has its memory again long before the contents are in the file.
#pragma once

#include <span>

#include "driver-checkpoint/owner/owner_driver.h"

namespace ckpt::cuda {

// What a drain copies to the host.
struct DueCopy {
  CUcontext context = nullptr;
  CUdeviceptr from = 0;
  u64 bytes = 0;
  u64 at = 0;                   // in the file
  CUdeviceptr device_copy = 0;  // memory for a copy on the device; 0: none
};

// Allocates memory for device copies of the last ones, as many as have room: the program gets the
// memory of the others only when they are in the file, so these are copied to the host first.
// Returns the number of the first one with a device copy.
size_t make_room_on_device(const OwnerDriver &driver, std::span<DueCopy> copies);

}  // namespace ckpt::cuda

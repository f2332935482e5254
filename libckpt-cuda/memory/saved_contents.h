// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// Device memory that a checkpoint saves.
struct Contents {
  std::string region;  // its name in the image
  u64 base = 0;
  u64 bytes = 0;
  CUcontext context = nullptr;  // null: it belongs to none, and any one of `device` can copy it
  CUdevice device = 0;
  u64 key = 0;  // of the physical memory that begins here (KeyedPhysical)
};

}  // namespace ckpt::cuda

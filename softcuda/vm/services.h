// SPDX-License-Identifier: Apache-2.0
//
// What kernels ask of the device beyond memory.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

// Thread-safe: all blocks of all kernels call it.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  // A line of printf. Shown when the host synchronises, as on a GPU.
  virtual void print(std::string_view text) = 0;
  // The device heap; 0: it is full. Freeing what it does not know returns false.
  virtual u64 allocate(u64 bytes) = 0;
  virtual bool release(u64 address) = 0;
};

}  // namespace ckpt::softcuda::vm

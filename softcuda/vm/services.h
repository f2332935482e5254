// SPDX-License-Identifier: Apache-2.0
//
// What kernels need of the device besides memory.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

// Thread-safe: the blocks of all kernels of a context call it.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  // Output of printf. It appears when the host synchronises, as on a GPU.
  virtual void print(std::string_view text) = 0;
  // malloc() and free() in kernels. allocate() returns 0 when the heap is full; release() returns
  // false for an address that allocate() did not return.
  virtual u64 allocate(u64 bytes) = 0;
  virtual bool release(u64 address) = 0;
};

}  // namespace ckpt::softcuda::vm

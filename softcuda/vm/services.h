// SPDX-License-Identifier: Apache-2.0
//
// What kernels need of the device besides memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

struct Symbol;

// A kernel that a kernel launches.
struct DeviceLaunch {
  const Symbol *kernel = nullptr;
  Dim grid, block;
  u32 shared = 0;     // dynamic shared memory, bytes
  bool tail = false;  // runs after all others that the grid launches
  std::vector<std::byte> params;
};

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
  // Runs a kernel after the grid of the caller. Returns why it cannot be launched, or nothing.
  virtual std::string launch(DeviceLaunch child) = 0;
};

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// Looks at chunks of memory where they are: whether all bytes are zero, and which address
// (docs/FORMAT.md) a chunk has.
#pragma once

#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/survey/look.h"

namespace ckpt::cuda {

class Looker {
 public:
  virtual ~Looker() = default;
  // In the order of `chunks`. Without `hash` only zeros are looked for.
  virtual Result<std::vector<Seen>> look(std::span<const Chunk> chunks, u64 seed, bool hash) = 0;
};

// Reads host memory, by the same functions as the kernel: the unit tests compare it with xxHash.
class HostLooker : public Looker {
 public:
  Result<std::vector<Seen>> look(std::span<const Chunk> chunks, u64 seed, bool hash) override;
};

// Runs the kernel on the device of `context`, from any thread. The devices must be idle: to load
// code, the driver may wait for a kernel, and holds locks meanwhile that the thread that ends the
// kernel may need. So the kernel is loaded here, and unloaded again: no device memory stays in use.
// Fails where the driver has no code for the device.
class DeviceLooker : public Looker {
 public:
  explicit DeviceLooker(CUcontext context) : context_(context) {}
  Result<std::vector<Seen>> look(std::span<const Chunk> chunks, u64 seed, bool hash) override;

 private:
  CUcontext context_;
};

}  // namespace ckpt::cuda

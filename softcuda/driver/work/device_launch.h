// SPDX-License-Identifier: Apache-2.0
//
// Kernels that a grid launches while it runs.
#pragma once

#include "softcuda/driver/work/launch.h"
#include "softcuda/vm/services.h"

namespace ckpt::softcuda::driver {

// The services of one grid: those of its context, and launches, which are kept until the grid has
// ended.
class GridServices : public vm::DeviceServices {
 public:
  GridServices(Context *c, const Launch &parent) : context_(c), parent_(parent) {}
  void print(std::string_view text) override { context_->print(text); }
  u64 allocate(u64 bytes) override { return context_->allocate(bytes); }
  bool release(u64 address) override { return context_->release(address); }
  std::string launch(vm::DeviceLaunch child) override;
  // Moves the launches to `stack`; the one that runs first is its last element.
  void take_children(std::vector<Launch> &stack);

 private:
  Context *context_;
  const Launch &parent_;
  std::mutex mutex_;
  std::vector<Launch> children_, tail_;
};

}  // namespace ckpt::softcuda::driver

// SPDX-License-Identifier: Apache-2.0
//
// CUDA's requests and reports to the Manager (ckpt-run --managed, manager-client/). Only steps that
// take device memory need a request: the start, an allocation that needs a new block, and code that
// has large device variables or uses the device heap. Contexts and freed memory are reported. For a
// program that is not managed all of this does nothing.
#pragma once

#include <functional>
#include <optional>

#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/memory/contexts.h"
#include "manager-client/manager_client.h"

namespace ckpt::cuda {

// Before the driver's cuInit: waits until the Manager assigns a device, and makes it the only
// device that the program sees. Fails if the Manager denies the request.
CUresult acquire_device();
// After cuInit, and after the program has joined the agent: from now on it can be evicted.
void report_started();
void report_context_made();
// The context is gone, with its memory and its modules.
void report_context_destroyed(CUcontext context);

// These are called inside the gate and leave it while they wait for the Manager.
//
// Memory::allocate(), with the Manager's permission. An allocation in an existing block
// is made without a request.
CUresult allocate_with_manager(const ContextInfo &context, u64 bytes, u64 &out);
// Memory::release(), reported.
void release_with_manager(u64 base);
// `make` takes `bytes` of device memory. It may be called several times.
CUresult make_with_manager(u64 bytes, const std::function<CUresult()> &make);
// `bytes` of device memory became free.
void report_freed(u64 bytes);

// One load of code.
class ManagedLoad {
 public:
  // `of_context`: what is loaded is unloaded with the current context.
  explicit ManagedLoad(bool of_context);
  // May wait for long; the program may be evicted meanwhile and resume on another device.
  CUresult ask(NewCode &code);
  // The load has ended. `handle` is the module or library; null: the load failed.
  void done(const void *handle);

 private:
  manager_client::ManagerClient *const client_;  // null: not managed
  const bool of_context_;
  u64 bytes_ = 0;      // of its device variables
  bool heap_ = false;  // the first code of this program that uses the device's heap
  std::optional<u32> ticket_;
};
void report_unloaded(const void *handle);

}  // namespace ckpt::cuda

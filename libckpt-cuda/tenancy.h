// SPDX-License-Identifier: Apache-2.0
//
// A program that shares its device with others (ckpt-run --managed,
// manager-client/manager_client.h): what CUDA asks the Manager, and when. Only what changes device
// memory asks: the start, a context, an allocation that the blocks at hand cannot serve, and code
// with device variables, or whose kernels use the device's heap; what is freed is told. All of it
// does nothing where nobody manages the program.
#pragma once

#include <optional>

#include "libckpt-cuda/code.h"
#include "libckpt-cuda/contexts.h"
#include "manager-client/manager_client.h"

namespace ckpt::cuda {

// Before cuInit of the driver: the program is given its device, which is the only one that it will
// see. Waits while none has room.
CUresult take_place();
// After it, and after the agent has been joined.
void place_taken();
void tell_context_made();

// Inside the gate. Memory in a block that there is costs no question.
CUresult allocate_as_tenant(const ContextInfo &context, u64 bytes, u64 &out);
void release_as_tenant(u64 base);
// A context is gone, with its memory and its modules.
void tell_freed(CUcontext context);

// One load of code. Inside the gate.
class ManagedLoad {
 public:
  // `of_context`: what is loaded goes with the current context.
  explicit ManagedLoad(bool of_context);
  // May wait for long, and the program may be on another device then.
  CUresult ask(NewCode &code);
  // Null: the driver did not take it.
  void done(const void *handle);

 private:
  manager_client::ManagerClient *tenant_;
  const bool of_context_;
  u64 bytes_ = 0;  // of its variables
  bool heap_ = false;
  std::optional<u32> ticket_;
};
void unload_as_tenant(const void *handle);

}  // namespace ckpt::cuda

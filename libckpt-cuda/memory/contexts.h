// SPDX-License-Identifier: Apache-2.0
//
// The contexts that live, and who may reach whose memory.
#pragma once

#include <optional>
#include <vector>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

struct ContextInfo {
  CUcontext handle = nullptr;
  CUdevice device = 0;
  bool primary = false;
};

// The calling thread's; noted, however it was made.
CUresult current_context(ContextInfo &out);
void note_context(const ContextInfo &context);
void forget_context(CUcontext context);
std::vector<ContextInfo> live_contexts();
std::optional<ContextInfo> primary_context(CUdevice device);

// `who` may reach the memory of `whose`, or no longer.
void note_peer(CUcontext who, CUcontext whose, bool may);
// The devices that reach the memory of `context`, its own first.
std::vector<CUdevice> devices_that_reach(const ContextInfo &context);

}  // namespace ckpt::cuda

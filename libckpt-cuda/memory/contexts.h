// SPDX-License-Identifier: Apache-2.0
//
// The live contexts, and which contexts have access to the memory of which others.
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

// The calling thread's context. It is added to the live ones: a program may have contexts that were
// made by an entry that is not ours, green contexts for example.
CUresult current_context(ContextInfo &out);
std::vector<ContextInfo> live_contexts();

// The primary context of a device, if it is live.
std::optional<ContextInfo> primary_context(CUdevice device);
void note_context(const ContextInfo &context);
// With the access of others to its memory, and its own to theirs.
void forget_context(CUcontext context);
// Whether `accessor` may use the memory of `owner`.
void note_access(CUcontext accessor, CUcontext owner, bool allowed);

// The devices with access to the memory of `context`, its own first (cuCtxEnablePeerAccess).
std::vector<CUdevice> devices_with_access(const ContextInfo &context);

// Whether `device` can access memory of `owner`.
bool reaches(CUdevice device, CUdevice owner);
// The devices with a context that can access memory of `owner`, and `owner` first.
std::vector<CUdevice> devices_that_reach(CUdevice owner);

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The requests to the node's Manager: for a device before the proxy is started, and for memory
// before a buffer or image is created. In a program without a Manager these functions do nothing.
//
// Memory is requested in steps of 2 MiB, so that small objects rarely need a request. A sub-buffer,
// or an image from a buffer, takes no memory of its own. An object with CL_MEM_USE_HOST_PTR does,
// because the device has its own copy (entry/buffer.cc).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Before the proxy is started: the UUID of the only device that the program may use. Waits until a
// device has room. Empty: any device. No value: the Manager denied the program a device.
std::optional<std::string> acquire_device();
// The proxy was started and the agent joined, or starting it failed.
void device_acquired();
// The process that owns the program's device memory from now on; 0: there is none.
void report_memory_owner(u32 proxy);
void report_context_created();

// Reserves `bytes` bytes of device memory for `m`, then calls `make()`, which creates the proxy's
// side. Called inside the gate; meanwhile the program may be evicted and resumed on another device.
cl_int create_managed(Mem &m, u64 bytes, const std::function<cl_int()> &make);
// `m` is being destroyed. May be called under any lock: it only counts the bytes.
void release_managed(const Mem &m);
// Whether enough memory was released since the last report to be worth a message. Then
// report_releases() sends it, at the end of an API call.
bool releases_to_report();
void report_releases();

}  // namespace ckpt::ocl

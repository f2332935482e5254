// SPDX-License-Identifier: Apache-2.0
//
// What is asked of the node's Manager, and when: the device before the driver is started, and
// memory before a buffer or image is made. All of it does nothing where nobody manages the program.
//
// Memory is asked for in steps of 2 MiB, so that small objects cost no question. An object that is
// part of another takes none. CL_MEM_USE_HOST_PTR does: the device's copy is one of its own
// (memory.cc).
#pragma once

#include <functional>
#include <optional>

#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {

// Before the driver is started: the UUID of the only device that the program shall see. Waits while
// none has room. Empty: whichever it likes; nothing: it was denied one.
std::optional<std::string> acquire_device();
// It is started, and the agent was joined; or it could not be.
void device_acquired();
// `proxy` has the program's device memory from now on; 0: none has.
void report_memory_owner(u32 proxy);
void report_context_created();

// Makes the far side of `m`, which takes `bytes` of device memory, once the program may have them.
// Inside the gate; meanwhile the program may be evicted, and come back on another device.
cl_int create_managed(Mem &m, u64 bytes, const std::function<cl_int()> &make);
// `m` is gone; to be told when no lock is held.
void release_managed(const Mem &m);

}  // namespace ckpt::ocl

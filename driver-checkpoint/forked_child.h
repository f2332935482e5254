// SPDX-License-Identifier: Apache-2.0
//
// Removes the driver from a forked child, so that the child can be dumped.
//
// The problem. A child that is forked after cuInit cannot use CUDA, but it inherits the driver's
// mappings and descriptors, and CRIU cannot dump those. PyTorch's DataLoader workers are such
// children. They have no agent, so they must have been mended long before a dump.
//
// How it works. Before each fork, the parent notes what it has of the driver. The child's handler
// then closes the descriptors and puts anonymous memory in the place of the mappings:
//
//   parent                                    child
//   7f10'0000-7f10'4000  /dev/nvidia0         private memory: zeros
//   7f20'0000-7f60'0000  /dev/nvidiactl       page-locked host memory: private memory with a copy
//   descriptor 9         /dev/nvidiactl       closed
//   descriptor 12        /dev/nvidiactl       NVML's: stays
//
// Memory stays mapped, because the driver's destructors run in a child that calls exit(), and may
// touch it. The child must be async-signal-safe, since another thread may have held any lock during
// the fork. So the parent reads /proc, and the child only asks for the name of what was noted
// (readlink(2)): a thread of the parent may have closed it, and opened something else there, since.
//
// NVML opens the same device files, and works in a child. What CUDA has opened is known only from
// the calls in which it opens its devices (OpensDevices). In a program without NVML, everything is
// CUDA's. A descriptor that is taken for NVML's stays open, and the dump is refused by that name.
//
// Children of vfork(), posix_spawn() and clone(CLONE_VM) share the parent's memory and run no
// handlers. Those of _Fork() and clone() without CLONE_VM run none either, and are refused.
//
// Cost. A fork reads /proc/self/maps and the target of each descriptor: 1 to 2 ms for 1,000
// mappings. Page-locked memory is copied in the child where it is a device's mapping.
//
// Source. signal-safety(7); pthread_atfork(3); proc_pid_map_files(5).
#pragma once

#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// While it exists, the driver opens devices: what is new at its end belongs to CUDA.
class OpensDevices {
 public:
  OpensDevices();
  ~OpensDevices();
  OpensDevices(const OpensDevices &) = delete;

 private:
  std::vector<int> before_;
};

// In the parent, before a fork. `has_contents`: whether a range overlaps page-locked host memory.
// Waits for no thread that waits for the driver.
void note_before_fork(bool (*has_contents)(u64 begin, u64 end));
// In the child. Async-signal-safe.
void mend_forked_child();

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The kernels that run in slices under ckpt-run --guest and --slice. A kernel that can be divided
// has a second one beside it, made from the sliced source (slicing/opencl_source.h), which only
// slices use. Both are ordinary objects of the ledger, so a restore makes the second one again,
// too.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "libckpt-ocl/client/object/objects.h"
#include "slicing/slice_size.h"

namespace ckpt::ocl {

// Shared by all kernels of a program with the same name: arguments and launch are sent together.
struct SlicedKernel {
  std::string whole;
  Ref<Kernel> kernel;
  bool may_wait = false;
  u64 hash = 0;
  std::atomic<bool> refused{false};  // the driver has refused a slice
  std::atomic<bool> named{false};    // the reason why it runs whole was logged

  std::mutex mutex;  // guards what follows
  slicing::SliceSize size;
};

// Of a program; made for the first launch of one of its kernels.
struct SlicedProgram {
  std::string whole;      // why its kernels run whole; empty: no reason
  Ref<Program> program;   // from the sliced source
  bool may_wait = false;  // work-groups could wait for others
  u64 hash = 0;           // of its sources
  std::map<std::string, std::shared_ptr<SlicedKernel>> kernels;
};

// Compiles the sliced source at the first call for a program. Never null. The caller has passed the
// gate, and holds no lock.
std::shared_ptr<SlicedKernel> sliced_kernel(Kernel &k);

// Why launches on this device, which is no sub-device, cannot be divided; empty: they can. Asks the
// proxy at the first call.
std::string reason_against_slices(Device &d);
// After a restore: asks a new proxy about the devices that were asked about before.
Result<> prepare_slices_again();

// Logs once that the kernel runs whole.
void name_whole(const Kernel &k, SlicedKernel &sliced, std::string_view why);

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
//
// The kernels that run in slices under ckpt-run --guest and --slice. A kernel that can be divided
// has others beside it, one for each form of the sliced source (slicing/opencl_source.h) that its
// launches need, which only slices use. All are ordinary objects of the ledger, so a restore makes
// them again, too.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "libckpt-ocl/client/object/objects.h"
#include "slicing/opencl_source.h"
#include "slicing/slice_size.h"

namespace ckpt::ocl {

// A kernel from one form of the source.
struct SlicedForm {
  bool made = false;
  std::string whole;  // why launches in this form run whole; empty: no reason
  Kept<Kind::Program, Kernel, Bond::Own> kernel;
  std::atomic<bool> refused{false};  // the driver has refused a slice
};

// Shared by all kernels of a program with the same name: arguments and launch are sent together.
struct SlicedKernel {
  std::string whole;  // why all its launches run whole
  bool may_wait = false;
  u64 hash = 0;
  std::atomic<bool> named{false};  // the reason why it runs whole was logged
  std::array<SlicedForm, slicing::kForms> forms;

  std::mutex mutex;  // guards what follows
  slicing::SliceSize size;
};

// Of a program; made for the first launch of one of its kernels.
struct SlicedProgram {
  std::string whole;      // why its kernels run whole; empty: no reason
  bool may_wait = false;  // work-groups could wait for others
  u64 hash = 0;           // of its sources
  struct Form {
    bool made = false;
    Kept<Kind::Program, Program, Bond::Own> program;  // null: it does not compile
  };
  std::array<Form, slicing::kForms> forms;
  std::map<std::string, std::shared_ptr<SlicedKernel>> kernels;
};

// Never null. The caller of these two has passed the gate, and holds no lock.
std::shared_ptr<SlicedKernel> sliced_kernel(Kernel &k);
// Compiles the sliced source at the first call for a program and a form. `sliced` is not whole.
SlicedForm &sliced_form(const Kernel &k, SlicedKernel &sliced, u32 form);

// Why launches on this device, which is no sub-device, cannot be divided; empty: they can. Asks the
// proxy at the first call.
std::string reason_against_slices(Device &d);
// After a restore: asks a new proxy about the devices that were asked about before.
Result<> prepare_slices_again();

// Logs once that the kernel runs whole.
void name_whole(const Kernel &k, SlicedKernel &sliced, std::string_view why);

}  // namespace ckpt::ocl

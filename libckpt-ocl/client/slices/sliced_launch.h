// SPDX-License-Identifier: Apache-2.0
//
// A launch in slices. See sliced_launch.cc.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "common/base/clock.h"
#include "libckpt-ocl/client/entry/launch.h"
#include "slicing/opencl_source.h"

namespace ckpt::ocl {

struct SlicedForm;
struct SlicedKernel;

class SlicedLaunch {
 public:
  SlicedLaunch(Kernel &k, std::shared_ptr<SlicedKernel> sliced, const LaunchShape &shape,
               const ArgumentMemory &memory, const slicing::NdRange &range);
  ~SlicedLaunch();

  // Whether the next part may be sent to `q` now. Called with the lock of DeferredCommands.
  bool may_send(Queue &q);
  // Sends the next part; `it` is the whole launch.
  cl_int send_next(Command &it);
  Trip trip(const Queue &q) const;
  // Whether one slice has room for the whole launch.
  bool is_one_slice(WorkTimes &times);

 private:
  struct Flight {
    u64 blocks;
    Ref<Event> event;
  };

  LaunchShape part(const slicing::Box &box) const;
  u64 slice_blocks() const;
  u64 expected_ns(u64 blocks) const;
  bool is_guarded() const;
  cl_int wait_for_earlier(Command &it);
  cl_int send_slice(Command &it, const slicing::Box &box);
  cl_int send_whole(Command &it);
  cl_int send_rest(Command &it);
  void settle();
  void measure(const Flight &flight);
  bool stands_still() const;

  Ref<Kernel> kernel_;  // as the program knows it
  std::shared_ptr<SlicedKernel> sliced_;
  SlicedForm *form_;  // of `sliced_`
  ArgumentList values_;
  ArgumentMemory memory_;
  LaunchShape shape_;
  slicing::NdRange range_;
  slicing::Dim grid_{};
  Device *device_ = nullptr;   // after the first slice
  u64 done_ = 0, slices_ = 0;  // blocks that were sent, and in how many slices
  std::deque<Flight> flights_;
  Ref<Event> first_, newest_, earlier_;
  Clock::time_point since_{};  // when the oldest flight could start
  u32 busy_ = 0;               // Completion::busy of the last slice that was measured
  cl_int failure_ = CL_SUCCESS;
};

// The launch in slices; null: it runs whole, or is shorter than a slice.
std::shared_ptr<SlicedLaunch> divide(Kernel &k, Queue &q, const LaunchShape &shape,
                                     const ArgumentMemory &memory);

}  // namespace ckpt::ocl

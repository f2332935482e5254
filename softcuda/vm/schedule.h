// SPDX-License-Identifier: Apache-2.0
//
// Runs the groups of lanes of a warp. schedule.cc explains divergence and reconvergence.
#pragma once

#include "softcuda/vm/frames.h"
#include "softcuda/vm/kernel.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

class Scheduler {
 public:
  // The grid and the frames must outlive the scheduler.
  Scheduler(Grid &grid, FramePool &frames) : grid_(grid), frames_(frames) {}
  // Adds the instructions and bytes that were counted to the grid.
  ~Scheduler();

  // Runs a warp until no group is ready, a group yields, or the grid stops. False: no group was
  // ready.
  bool run(Warp &w);

 private:
  // What ended a stretch of code that one group executed.
  enum class Stop : u8 {
    Failed,   // the kernel ends
    Reached,  // at or beyond another group of the same frame
    Yielded,  // the quantum of backward jumps is used up
    Control,  // at an instruction that changes the flow of control, or waits
  };

  bool run_group(Warp &w, size_t index);
  Stop run_stretch(Warp &w, Group &g, u32 &backward_jumps);
  bool control(Warp &w, size_t index, const Op &op, Mask m);
  bool sync_members(Warp &w, size_t index, const Op &op, Mask m);
  void sync_block(Warp &w, size_t index, const Op &op, Mask m);
  void exit_lanes(Warp &w, size_t index, Mask m);
  void leave_frame(Frame *f, Mask m);
  bool call(Warp &w, size_t index, const Op &op, Mask m);
  bool call_pointer(Warp &w, size_t index, const Op &op, Mask m);
  bool enter(Warp &w, size_t index, Code &callee, u32 call_index, Mask m);
  bool return_from_call(Warp &w, size_t index, Mask m);
  void branch_table(Warp &w, size_t index, const Op &op, Mask m);

  Grid &grid_;
  FramePool &frames_;
  u64 instructions_ = 0;
  u64 memory_bytes_ = 0;
};

}  // namespace ckpt::softcuda::vm

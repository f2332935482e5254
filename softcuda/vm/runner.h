// SPDX-License-Identifier: Apache-2.0
//
// Runs blocks of a grid on the calling thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "softcuda/vm/kernel.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

struct AlignedFree {
  void operator()(std::byte *p) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;
AlignedBytes aligned_bytes(size_t n);

class Runner {
 public:
  // The grid must outlive the runner.
  explicit Runner(Grid &grid);
  // Adds what was counted to the grid.
  ~Runner();

  // Runs one cluster (mostly of one block) to its end, or until the grid stops.
  void run(u64 cluster);
  // For grids whose blocks wait for each other: makes a cluster, and goes on with all a while.
  // False: they have ended.
  void add(u64 cluster);
  bool run_added();

 private:
  // runner.cc: blocks, warps, frames
  struct Resident {
    Block block;
    AlignedBytes shared;
    std::vector<AlignedBytes> local;
    Cluster cluster;  // if this is its first block
    bool active = false;
  };
  Resident &resident();
  Cluster &begin_cluster(u64 number);
  void begin(Resident &r, Dim index);
  void begin_warp(Resident &r, Warp &w);
  Frame *new_frame(const Code &code);
  void release_frame(Frame *f);
  bool step(Cluster &c);
  bool step(Block &b);
  void report_deadlock(Cluster &c);

  // schedule.cc: groups of lanes
  bool run_warp(Warp &w);
  size_t choose(Warp &w);
  bool run_group(Warp &w, size_t index);
  void join(Warp &w);
  u32 limit_of(const Warp &w, const Group &g) const;
  size_t part(Warp &w, size_t index, Mask m, u32 pc, u32 rest_pc);
  void leave(Warp &w, Frame *f, Mask m);
  void exit_lanes(Warp &w, size_t index, Mask m);
  // Each of these returns true when the group may run on at g.pc.
  bool call(Warp &w, size_t index, const Op &op, Mask m);
  bool enter(Warp &w, size_t index, Code &callee, u32 call_index, Mask m);
  bool give_back(Warp &w, size_t index, Mask m);
  bool branch_table(Warp &w, size_t index, const Op &op, Mask m);
  bool block_barrier(Warp &w, size_t index, const Op &op, Mask m);
  bool warp_sync(Warp &w, size_t index, const Op &op, Mask m);
  bool try_warp_sync(Warp &w, Mask members);
  void complete_barrier(Block &b, u32 id);
  void check_barriers(Block &b);
  void cluster_arrive(Warp &w, size_t index, Mask m);
  void cluster_wait(Warp &w, size_t index, Mask m);
  void check_cluster(Cluster &c);

  Grid &grid_;
  std::deque<Frame> frames_;
  std::vector<AlignedBytes> rows_;
  std::vector<std::vector<Frame *>> free_frames_;  // by Code::index
  std::vector<std::unique_ptr<Resident>> residents_;
  u32 local_bytes_ = 0;
  u64 instructions_ = 0;
  u64 memory_bytes_ = 0;
};

}  // namespace ckpt::softcuda::vm

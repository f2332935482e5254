// SPDX-License-Identifier: Apache-2.0
//
// Runs blocks of a grid on the calling thread.
#pragma once

#include <memory>
#include <vector>

#include "softcuda/vm/frames.h"
#include "softcuda/vm/schedule.h"

namespace ckpt::softcuda::vm {

class Runner {
 public:
  // The grid must outlive the runner.
  explicit Runner(Grid &grid);

  // Runs one cluster (usually a single block) to its end, or until the grid stops.
  void run(u64 cluster);

  // For grids whose blocks wait for each other: start() prepares a cluster, and run_started() runs
  // one round of all that were started. False: all have ended, or the grid stops.
  void start(u64 cluster);
  bool run_started();

 private:
  // A block with its memory. Reused, because setting it up takes longer than many blocks run.
  struct Resident {
    Block block;
    AlignedBytes shared;
    std::vector<AlignedBytes> local;  // of each warp
    Cluster cluster;                  // used if this is the cluster's first block
    bool active = false;
  };
  Resident &resident();
  void add_warp(Resident &r, u32 first);
  Cluster &begin_cluster(u64 number);
  void begin(Resident &r, Dim index);
  void begin_warp(Warp &w);
  bool step(Cluster &c);
  bool step(Block &b);
  void report_deadlock(Cluster &c);

  Grid &grid_;
  FramePool frames_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Resident>> residents_;
  u32 local_bytes_ = 0;  // of each lane
};

}  // namespace ckpt::softcuda::vm

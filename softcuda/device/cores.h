// SPDX-License-Identifier: Apache-2.0
//
// The host's cores as multiprocessors: one pool of threads runs the blocks of all kernels. The
// thread that launches a kernel runs blocks, too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda {

class Cores {
 public:
  // Returns when the grid has ended or failed (Grid::fault).
  void run(vm::Grid &grid);
  // For cooperative launches: all blocks are resident at the same time, because they wait for each
  // other.
  void run_cooperative(vm::Grid &grid);
  // CKPT_SOFTCUDA_CORES, or all usable cores.
  static u32 count();

 private:
  struct Job {
    vm::Grid *grid;
    u64 clusters;
    std::atomic<u64> next{0};
    u32 helpers = 0;  // guarded by mutex_
  };
  static void work(Job &job);
  void start_threads();
  void thread();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job *> jobs_;
  u32 threads_ = 0;
};

}  // namespace ckpt::softcuda

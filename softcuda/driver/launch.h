// SPDX-License-Identifier: Apache-2.0
//
// A kernel launch with all that it needs, so that it can wait in a stream or stand in a graph.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

struct Launch {
  Function *function = nullptr;
  vm::Dim grid, block;
  vm::Dim cluster{0, 0,
                  0};  // before make_launch: what is asked for, 0 for what the kernel declares
  bool explicit_cluster = false;
  u32 shared = 0;  // dynamic
  bool cooperative = false;
  std::vector<std::byte> params;
};

// Checks everything that a real driver checks at once.
CUresult make_launch(Context *c, const void *function, vm::Dim grid, vm::Dim block, unsigned shared,
                     void **params, void **extra, bool cooperative, Launch &out);
// Runs it to its end; a fault becomes the context's error.
void run(Context *c, const Launch &l);
int blocks_per_multiprocessor(const Function &f, u64 threads, u64 dynamic_shared);

}  // namespace ckpt::softcuda::driver

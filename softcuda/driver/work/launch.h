// SPDX-License-Identifier: Apache-2.0
//
// A kernel launch with its parameters, which can be queued in a stream or stored in a graph.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

struct Launch {
  Function *function = nullptr;
  const void *handle = nullptr;  // of the function, as the program passed it
  vm::Dim grid, block;
  vm::Dim asked_cluster{0, 0, 0};  // by the program; 0: what the kernel declares
  vm::Dim cluster{};               // from both
  bool explicit_cluster = false;
  u32 shared = 0;  // dynamic shared memory, bytes
  bool cooperative = false;
  std::vector<std::byte> params;
};

// Fills in a launch, and reports the errors that a real driver reports when a launch is submitted.
CUresult make_launch(Context *c, const void *function, vm::Dim grid, vm::Dim block, unsigned shared,
                     void **params, void **extra, bool cooperative, Launch &out);
// Executes a launch on this thread. A fault becomes the context's error.
void run(Context *c, const Launch &l);
// How many blocks fit on a multiprocessor; `dynamic_shared` in bytes.
int blocks_per_multiprocessor(const Function &f, u64 threads, u64 dynamic_shared);

}  // namespace ckpt::softcuda::driver

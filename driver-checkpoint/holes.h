// SPDX-License-Identifier: Apache-2.0
//
// Addresses of the process that the driver unmaps for the time of a checkpoint.
//
// The problem. The driver's Checkpoint unmaps the ranges of /dev/nvidia* from the process, and its
// Restore maps them at the same addresses with MAP_FIXED. The threads of the program run meanwhile,
// for hours where it is suspended. If one of them maps memory, the kernel may place it in such a
// hole, and Restore destroys it (google/gvisor#14776). Newer drivers leave placeholders themselves
// (google/gvisor#14008).
//
// How it works. Device ranges are shared mappings of device files. note() records them before the
// checkpoint; other shared mappings are the program's, whose threads may change them meanwhile.
// fill() puts a mapping without access into the place of each that has disappeared.
// Before that, a thread may already have mapped something there. Threads that map often usually
// unmap soon, so fill() waits for that, and fails at a deadline. The placeholders stay during
// Restore, which maps over them, so the addresses are never free. release() removes the
// placeholders that Restore has not replaced.
//
// Cost. /proc/self/maps is read two times a checkpoint and once a restore.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/proc/maps.h"

namespace ckpt::cuda {

class Holes {
 public:
  void note();
  Result<> fill();
  void release();

 private:
  struct Range {
    u64 begin = 0, end = 0;
  };
  std::vector<ProcMapping> before_;
  std::vector<Range> placed_;
};

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// What kernels have printed, until it is written to the program's standard output. That is where
// descriptor 1, or the C library's stdout, leads at that moment: the program may redirect it at any
// time, and after a restore it may be another file or terminal.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>

#include "ring/output_ring.h"

namespace ckpt::ocl {

class Printed {
 public:
  void add(OutputWay way, std::string text);
  bool empty() const { return empty_.load(std::memory_order_relaxed); }
  // Writes it, and waits until a pipe or terminal has taken it. When a checkpoint comes, the rest
  // is left for later: whoever reads the output may be waiting for the checkpoint.
  void write();

 private:
  struct Piece {
    OutputWay way;
    std::string text;
  };
  bool write_piece(Piece &piece);

  std::mutex mutex_;
  std::deque<Piece> pieces_;
  size_t bytes_ = 0;
  std::atomic<bool> empty_{true};
};

// Starts the thread that takes what kernels print while the program makes no OpenCL call. Called
// when a program is built that may print, and for the first output.
void start_taking_output();

}  // namespace ckpt::ocl

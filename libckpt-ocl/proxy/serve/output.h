// SPDX-License-Identifier: Apache-2.0
//
// What drivers and kernels write to standard output. Here that is a pipe, and what arrives there
// goes to the program (output_ring.h).
#pragma once

#include <mutex>
#include <optional>

#include "common/base/unique_fd.h"
#include "ring/channel.h"
#include "ring/output_ring.h"

namespace ckpt::ocl {

class Output {
 public:
  explicit Output(Channel &channel) : channel_(channel) {}
  // Called once, before a driver is loaded. This object lives as long as the process.
  Result<> capture();
  // Forwards all that was written so far.
  void flush();

 private:
  // Passes on what has arrived, and then counts what arrives as `next`.
  void forward(std::optional<OutputWay> next = {});
  void pass_on();

  Channel &channel_;
  UniqueFd original_;  // until the client takes the output
  UniqueFd pipe_;
  std::mutex flushing_;
  std::mutex mutex_;  // held from reading the pipe to sending, so that flush() misses nothing
  OutputWay way_ = OutputWay::Direct;  // of what arrives now
};

}  // namespace ckpt::ocl

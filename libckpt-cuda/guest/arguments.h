// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a launch with the SliceArgument behind them, in the form in which the program
// gave them: an array of pointers, or one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER).
#pragma once

#include <vector>

#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda::guest {

class Arguments {
 public:
  // `grid` is the whole grid. Without takes_slice the program's arguments are passed on.
  Arguments(const Kernel &kernel, void **params, void **extra, const slicing::Dim &grid);
  Arguments(const Arguments &) = delete;

  void set_base(const slicing::Dim &base);
  void **params() { return params_; }
  void **extra() { return extra_; }

 private:
  void append_pointer(const Kernel &kernel);
  void append_to_buffer(const Kernel &kernel);

  void **params_, **extra_;
  slicing::SliceArgument slice_;
  std::vector<void *> pointers_;
  std::vector<std::byte> buffer_;
  size_t buffer_bytes_ = 0;
  std::byte *slice_in_buffer_ = nullptr;
  void *list_[5] = {};
};

}  // namespace ckpt::cuda::guest

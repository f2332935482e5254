// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>

#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {

// Arguments of kernels that are pointers into shared virtual memory, with the buffers that stand
// for them where a driver takes no pointers (device/pointer_argument.h).
class PointerArguments {
 public:
  // `memory`: from the pointer to the end of its block; empty: there is none.
  cl_int set(u64 number, cl_kernel kernel, cl_uint index, std::span<std::byte> memory);
  // The kernel is released. Launches under way keep what they use.
  void forget(u64 number);

 private:
  std::map<std::pair<u64, cl_uint>, cl_mem> stand_ins_;  // by number of the kernel and index
};

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/pointer_arguments.h"

#include "libckpt-ocl/proxy/device/pointer_argument.h"

namespace ckpt::ocl {

cl_int PointerArguments::set(u64 number, cl_kernel kernel, cl_uint index,
                             std::span<std::byte> memory) {
  if (memory.empty()) return CL_INVALID_ARG_VALUE;
  cl_mem stand_in = nullptr;
  cl_int status = set_pointer_argument(kernel, index, memory, stand_in);
  if (!stand_in) return status;
  cl_mem &kept = stand_ins_[{number, index}];
  release_handle(Kind::Mem, std::exchange(kept, stand_in));
  return status;
}

void PointerArguments::forget(u64 number) {
  auto begin = stand_ins_.lower_bound({number, 0}), end = stand_ins_.lower_bound({number + 1, 0});
  for (auto it = begin; it != end; ++it) release_handle(Kind::Mem, it->second);
  stand_ins_.erase(begin, end);
}

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/arriving.h"

#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {

cl_int wait_for_contents(Mem &m) {
  Mem &root = *m.root();
  if (!root.arrives.load(std::memory_order_acquire)) return CL_SUCCESS;
  cl_int r = link().round_trip(Op::Arrive, 0, Writer().put(root.number).bytes());
  if (r == CL_SUCCESS) root.arrives.store(false, std::memory_order_release);
  return r;
}

}  // namespace ckpt::ocl

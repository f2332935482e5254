// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/gate.h"

namespace ckpt::ocl {

// Never destroyed: the application may call OpenCL after its static destructors have run.
agent::Gate &gate() {
  static auto *g = new agent::Gate;
  return *g;
}

}  // namespace ckpt::ocl

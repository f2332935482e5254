// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/gate.h"

namespace ckpt::remote::cuda {

// Every call of the program passes it. Never destroyed: the CUDA runtime calls the driver after
// main() has returned.
inline agent::Gate &gate() {
  static auto *const kGate = new agent::Gate;
  return *kGate;
}

struct Inside {
  Inside() { gate().enter(); }
  ~Inside() { gate().leave(); }
};

}  // namespace ckpt::remote::cuda

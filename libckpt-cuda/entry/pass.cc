// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/pass.h"

namespace ckpt::cuda {

std::atomic<bool> g_devices_lost{false};

agent::Gate &gate() {
  static agent::Gate *const kGate = new agent::Gate;
  return *kGate;
}

}  // namespace ckpt::cuda

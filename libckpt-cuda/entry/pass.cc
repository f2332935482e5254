// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/pass.h"

namespace ckpt::cuda {

std::atomic<CUresult> g_refusal{CUDA_SUCCESS};

agent::Gate &gate() {
  static agent::Gate *const kGate = new agent::Gate;
  return *kGate;
}

}  // namespace ckpt::cuda

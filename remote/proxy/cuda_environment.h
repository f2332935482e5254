// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace ckpt::remote {

// The environment that makes a program load the forwarding libcuda.so.1, and the CUDA runtime that
// works with it; in the form of ckpt-cuda-proxy --environment. An empty object if it is not
// installed.
nlohmann::json cuda_environment();

}  // namespace ckpt::remote

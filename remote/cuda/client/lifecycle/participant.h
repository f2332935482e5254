// SPDX-License-Identifier: Apache-2.0
//
// The program's CUDA state in the life cycle (agent/participant/participant.h).
#pragma once

#include <functional>

#include "common/base/result.h"

namespace ckpt::remote::cuda {

// Registers the participant while `start` connects.
Result<> join_session(const std::function<Result<>()> &start);

}  // namespace ckpt::remote::cuda

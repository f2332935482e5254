// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::cuda {

// CUDA as a participant of the life cycle. Lives as long as the process.
agent::Participant *participant();

}  // namespace ckpt::cuda

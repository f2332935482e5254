// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/participant.h"

namespace ckpt::cuda {

agent::Participant *participant();

}  // namespace ckpt::cuda

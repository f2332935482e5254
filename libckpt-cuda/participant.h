// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant.h"

namespace ckpt::cuda {

Participant *participant();

}  // namespace ckpt::cuda

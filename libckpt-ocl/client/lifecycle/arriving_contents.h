// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "agent/participant/participant.h"

namespace ckpt::ocl {

// Leaves the contents of buffers to the proxy, which gets them over `tool` while the program runs.
// Which of the regions: plain buffers alone. Empty: none of them.
std::vector<bool> load_later(std::span<const agent::LaterRegion> regions, int tool);
// The proxy is another one: nothing arrives there.
void forget_arrivals();

}  // namespace ckpt::ocl

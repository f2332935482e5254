// SPDX-License-Identifier: Apache-2.0
//
// Loads the contents of one agent's devices from an image: what is in a file already, from there,
// and all else through staging slots.
#pragma once

#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/contents_ahead.h"

namespace ckpt::tools {

// `ahead` was started. `later`: the regions of its plan that come another way (none: empty).
// `staging` is no longer used after the return.
Result<> load_agent(AgentClient &agent, StagingSlots &staging, ContentsAhead &ahead,
                    const std::vector<bool> &later = {});

}  // namespace ckpt::tools

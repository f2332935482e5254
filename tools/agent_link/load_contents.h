// SPDX-License-Identifier: Apache-2.0
//
// Loads the contents of one agent's devices from an image, through staging slots.
#pragma once

#include "storage/read/image_reader.h"
#include "tools/agent_link/agent_client.h"

namespace ckpt::tools {

// `staging` is no longer used after the return.
Result<> load_agent(AgentClient &agent, StagingSlots &staging, const storage::ImageReader &image,
                    u32 number);

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// Device memory on its way between an agent and an image, through staging slots.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"
#include "tools/agent/agent.h"

namespace ckpt::tools {

// The image's streams of agent `number`: "device/0/ocl/mem-17".
std::string device_stream_prefix(u32 number);

struct SavedAgent {
  std::string needs;  // JSON array, one element a participant
  u64 bytes = 0;
  u64 unchanged_bytes = 0;  // of these: not read, as the agent knew that they are the parent's
};

// The number that the process `pid` (in its own namespace) has among the agents of an image.
std::optional<u32> agent_number_in(const storage::ImageReader &image, pid_t pid);

// Save. Regions that the agent says are as they were come from the image's parent, where the
// process was agent `number_in_parent`. `staging` must live until the image is finished or dropped:
// its slots are compressed where they are.
Result<SavedAgent> save_agent(AgentClient &agent, Staging &staging, storage::ImageWriter &image,
                              u32 number, std::optional<u32> number_in_parent,
                              std::atomic<u64> &progress);

// Load. `staging` may go when it returns.
Result<> load_agent(AgentClient &agent, Staging &staging, const storage::ImageReader &image,
                    u32 number);

}  // namespace ckpt::tools

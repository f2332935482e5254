// SPDX-License-Identifier: Apache-2.0
//
// Saves the contents of one agent's devices into an image, through staging slots.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/contents_file.h"
#include "tools/agent_link/later_contents.h"

namespace ckpt::tools {

// Contents that are still in the agent's file.
struct KeptPiece {
  storage::StreamId stream;
  u64 offset;
  ByteView bytes;  // empty: zeros
  u64 size;
};

struct SavedAgent {
  std::string requirements;  // a JSON array with one element for each participant
  u64 bytes = 0;
  // The part of `bytes` that was not read, because the agent knows that it equals the parent's.
  u64 unchanged_bytes = 0;
  u64 zero_bytes = 0;                  // not read, because a device saw that they are zero
  std::vector<std::string> blind;      // why a device did not look, one sentence each
  std::vector<KeptPiece> kept;         // for write_kept()
  std::shared_ptr<ContentsFile> file;  // where they are
  // What is to come, and what has come for write_kept(), while its thread runs; null: all is there.
  std::unique_ptr<LaterContents> later;
  std::shared_ptr<std::vector<KeptPiece>> come;
  bool while_it_runs = false;  // the program need not wait for them
};

// The number of process `pid` (in its own namespace) among the agents of an image.
std::optional<u32> agent_number_in(const storage::ImageReader &image, pid_t pid);

// Regions that did not change since the parent image are taken from it; `number_in_parent` is the
// process's number there. `staging` must live until the image is finished or dropped, because the
// image's workers compress its slots in place. Adds the bytes that are done to `progress`. With
// `later`, contents in the agent's file are left for write_kept().
Result<SavedAgent> save_agent(AgentClient &agent, StagingSlots &staging,
                              storage::ImageWriter &image, u32 number,
                              std::optional<u32> number_in_parent, std::atomic<u64> &progress,
                              bool later);
// Returns when all contents have come.
Result<> wait_for_later(SavedAgent &saved);
// Writes them into the image; from then on the workers hold the file.
Result<> write_kept(SavedAgent &saved, storage::ImageWriter &image);

}  // namespace ckpt::tools

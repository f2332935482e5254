// SPDX-License-Identifier: Apache-2.0
//
// The chunks of device memory that the parent image has of one process. A dump that ends the
// program leaves them out (agent/transfer/parent_chunks.h), so a dump that is undone must read them
// from the parent, even if ckpt-dump was killed and the image was removed meanwhile. Therefore:
//
//   before the pause    every stored byte of these chunks is read and compared with its checksum; a
//                       chunk that is damaged is not offered to the agent
//   before the agent    a process of its own has opened the image: ckpt-dump --parent-reader, which
//   learns of them      reads chunks for the agent. It is in no process group of ours, so Ctrl-C
//                       does not reach it, and ends when the agent and its keeper have hung up
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/format/key.h"
#include "storage/read/image_reader.h"
#include "tools/agent_link/agent_client.h"

namespace ckpt::tools {

class ParentReader {
 public:
  // Null: `parent` has no chunks of device memory of its process `number`.
  static Result<std::unique_ptr<ParentReader>> start(const storage::ImageReader &parent, u32 number,
                                                     const storage::Key *key);
  ~ParentReader();
  ParentReader(const ParentReader &) = delete;

  // False: the agent sends all chunks.
  bool give_to(AgentClient &agent);
  // The image is complete, and the program has ended.
  void end();

 private:
  ParentReader() = default;

  UniqueFd addresses_;  // a file
  u64 count_ = 0;
  UniqueFd socket_;  // the agent's end
  pid_t process_ = 0;
};

// `ckpt-dump --parent-reader IMAGE NUMBER SOCKET`; returns the exit code.
int parent_reader_main(char **arguments);

}  // namespace ckpt::tools

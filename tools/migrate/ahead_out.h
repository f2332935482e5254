// SPDX-License-Identifier: Apache-2.0
//
// Sends the chunks of an image while the dump still writes it, so that the link does not wait for
// the dump.
#pragma once

#include <string>
#include <unordered_set>

#include "common/base/unique_fd.h"
#include "storage/format/format.h"
#include "tools/migrate/frame_link.h"

namespace ckpt::tools {

class AheadOut {
 public:
  // `bytes` of `file` at `offset`. What an earlier round has sent is not sent again, and what
  // cannot be read is not an error: the receiver asks for what it lacks once the image is complete.
  Result<> send(FrameLink &link, u32 round, const std::string &file, u64 offset, u32 bytes);
  // The receiver has the chunks of this image.
  void arrived(const storage::Index &index);

 private:
  Result<> open(FrameLink &link, u32 round, const std::string &file);

  std::string name_;
  UniqueFd file_;
  std::unordered_set<u64> there_;  // checksums of stored bytes
};

}  // namespace ckpt::tools

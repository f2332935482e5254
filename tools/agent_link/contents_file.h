// SPDX-License-Identifier: Apache-2.0
//
// An agent's file of device contents (ContentsFile in agent/protocol.h), mapped for reading.
#pragma once

#include <memory>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class ContentsFile {
 public:
  // Refuses a file that could shrink, because a read beyond its end would end this process.
  static Result<std::shared_ptr<ContentsFile>> map(UniqueFd fd, u64 bytes);
  ~ContentsFile();
  ContentsFile(const ContentsFile &) = delete;

  // The parts together may not be larger than the file's allocated memory: reading the rest, a
  // hole, would allocate memory.
  Result<ByteView> part(u64 at, u64 bytes);

 private:
  ContentsFile(UniqueFd fd, const std::byte *memory, u64 bytes)
      : fd_(std::move(fd)), memory_(memory), bytes_(bytes) {}
  const UniqueFd fd_;
  const std::byte *const memory_;
  const u64 bytes_;
  u64 in_parts_ = 0;
};

}  // namespace ckpt::tools

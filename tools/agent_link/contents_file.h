// SPDX-License-Identifier: Apache-2.0
//
// An agent's file of device contents (ContentsFile in agent/protocol.h), mapped for reading.
#pragma once

#include <memory>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

class ContentsFile {
 public:
  // Refuses a file that could shrink, because a read beyond its end would end this process.
  static Result<std::shared_ptr<ContentsFile>> map(int fd, u64 bytes);
  ~ContentsFile();
  ContentsFile(const ContentsFile &) = delete;

  Result<ByteView> part(u64 at, u64 bytes) const;

 private:
  ContentsFile(const std::byte *memory, u64 bytes) : memory_(memory), bytes_(bytes) {}
  const std::byte *const memory_;
  const u64 bytes_;
};

}  // namespace ckpt::tools

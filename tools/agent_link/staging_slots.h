// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The tool's side of the staging memory: a shared file, divided into slots, through which contents
// pass between the tool and an agent or its proxy.
class StagingSlots {
 public:
  static constexpr u32 kSlots = 32;
  static constexpr u32 kSlotBytes =
      1u << 20;  // the largest chunk: ImageWriter::put() takes whole chunks

  static Result<StagingSlots> create();
  StagingSlots(StagingSlots &&o) noexcept
      : fd_(std::move(o.fd_)), memory_(std::exchange(o.memory_, nullptr)) {}
  StagingSlots &operator=(StagingSlots &&) = delete;
  ~StagingSlots();

  int fd() const { return fd_.get(); }
  std::span<std::byte> slot(u32 index) {
    return {memory_ + static_cast<size_t>(index) * kSlotBytes, kSlotBytes};
  }

 private:
  StagingSlots(UniqueFd fd, std::byte *memory) : fd_(std::move(fd)), memory_(memory) {}
  UniqueFd fd_;
  std::byte *memory_;
};

}  // namespace ckpt::tools

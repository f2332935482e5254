// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Shared memory in slots, through which device memory goes between an agent (or its proxy) and us.
class Staging {
 public:
  static constexpr u32 kSlots = 32;
  static constexpr u32 kSlotBytes = 1u << 20;  // a chunk of an image: put() takes whole ones

  static Result<Staging> create();
  Staging(Staging &&o) noexcept
      : fd_(std::move(o.fd_)), memory_(std::exchange(o.memory_, nullptr)) {}
  Staging &operator=(Staging &&) = delete;
  ~Staging();

  int fd() const { return fd_.get(); }
  std::span<std::byte> slot(u32 index) {
    return {memory_ + static_cast<size_t>(index) * kSlotBytes, kSlotBytes};
  }

 private:
  Staging(UniqueFd fd, std::byte *memory) : fd_(std::move(fd)), memory_(memory) {}
  UniqueFd fd_;
  std::byte *memory_;
};

}  // namespace ckpt::tools

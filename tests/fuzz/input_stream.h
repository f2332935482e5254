// SPDX-License-Identifier: Apache-2.0
//
// The other node's end of a connection, which says the input and takes whatever is sent.
#pragma once

#include <algorithm>

#include "remote/transport/stream.h"

namespace ckpt::remote {

class InputStream final : public Stream {
 public:
  explicit InputStream(ByteView bytes) : bytes_(bytes) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    size_t n = std::min(into.size(), bytes_.size());
    if (n > 0) std::memcpy(into.data(), bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return n;
  }
  Result<> write(ByteView) override { return {}; }
  void set_deadline(std::optional<Clock::time_point>) override {}
  void shut_down() override {}
  int descriptor() const override { return -1; }
  bool is_plain() const override { return false; }

 private:
  ByteView bytes_;
};

}  // namespace ckpt::remote

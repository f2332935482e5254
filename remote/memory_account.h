// SPDX-License-Identifier: Apache-2.0
//
// The device memory of one program's buffers and images, as its commands say. A user's limit is
// kept by the server's first process, which is asked for every growth.
#pragma once

#include <functional>
#include <unordered_map>

#include "common/base/bytes.h"
#include "libckpt-ocl/wire.h"

namespace ckpt::remote {

class MemoryAccount {
 public:
  // Asks for `change` more bytes; negative: gives them back. False: the user's limit is reached.
  using Ask = std::function<bool(i64 change)>;
  explicit MemoryAccount(Ask ask) : ask_(std::move(ask)) {}

  // A command that makes a buffer or an image. False: it must be refused.
  bool admit(const ocl::CommandHeader &header, ByteView payload);
  // The object could not be made, or it was released.
  void forget(u64 object);
  u64 bytes() const { return total_; }

 private:
  Ask ask_;
  std::unordered_map<u64, u64> bytes_of_;
  u64 total_ = 0;
};

}  // namespace ckpt::remote

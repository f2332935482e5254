// SPDX-License-Identifier: Apache-2.0
//
// The memory of one program's objects, as its commands say: that of buffers and images, and large
// payloads that a driver keeps. A user's limit is kept by the server's first process, which is
// asked for every growth.
#pragma once

#include <functional>
#include <unordered_map>

#include "common/base/bytes.h"
#include "ring/table.h"
#include "ring/wire.h"

namespace ckpt::remote {

class MemoryAccount {
 public:
  // Asks for `change` more bytes; negative: gives them back. False: the user's limit is reached.
  using Ask = std::function<bool(i64 change)>;
  explicit MemoryAccount(Ask ask) : ask_(std::move(ask)) {}

  // A command. False: the object that it makes must be refused.
  bool admit(const ocl::CommandHeader &header, ByteView payload);
  // The last one with this number could not be made.
  void failed(u64 object) { give_back(object); }
  void released(ocl::Kind kind, u64 object);
  u64 bytes() const { return total_; }

 private:
  struct Object {
    ocl::Kind kind;
    u64 bytes;
  };
  void give_back(u64 object);

  Ask ask_;
  // What another object with the same number had stays counted: the proxy has lost it.
  std::unordered_map<u64, Object> objects_;
  u64 total_ = 0;
};

}  // namespace ckpt::remote

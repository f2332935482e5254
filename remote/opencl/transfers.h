// SPDX-License-Identifier: Apache-2.0
//
// Which commands of the ring (ring/wire.h) refer to staging memory, and to how much of it.
// Both relays read this from the command itself, so each knows how many bytes follow a frame.
#pragma once

#include <optional>
#include <unordered_map>

#include "common/base/bytes.h"
#include "ring/wire.h"

namespace ckpt::remote {

// A relay sends what it has gathered when it is more than this.
inline constexpr size_t kBatchBytes = 256u << 10;

struct Transfer {
  bool to_device = false;
  bool in_tool_staging = false;  // else in the ring's
  u64 place = 0, bytes = 0;
};

// The bytes of an element of each image, which a command on an image does not say. The reply to
// CreateImage does.
class Transfers {
 public:
  // No value: the command moves no bytes through staging memory, or is malformed; then the proxy
  // refuses it.
  std::optional<Transfer> of(const ocl::CommandHeader &header, ByteView payload) const;

  // False: no image has elements of this size.
  bool image_made(u64 number, ByteView reply);
  // After Op::Release.
  void released(ByteView payload);

 private:
  std::optional<Transfer> of_image(ocl::Op op, Reader &r) const;
  std::unordered_map<u64, u64> element_bytes_;
};

}  // namespace ckpt::remote

// SPDX-License-Identifier: Apache-2.0
//
// What processes share with each other (cuIpcGetMemHandle, cuIpcGetEventHandle): a file in memory
// and a description of it, which the broker does not read. Each has a random number, which the
// program passes on in its handle.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::softcuda::broker {

using ShareId = std::array<std::byte, 16>;

inline constexpr size_t kMaxDescription = 256;

// No value: the message is too short.
std::optional<ShareId> read_share_id(Reader &r);

struct Share {
  u64 owner = 0;  // identity of a connection
  Bytes description;
  UniqueFd fd;
};

class Shares {
 public:
  // `limit`: how many there may be at once, because each needs a descriptor.
  explicit Shares(size_t limit) : limit_(limit) {}
  Result<ShareId> add(Share share);
  const Share *find(const ShareId &id) const;
  // Does nothing if `owner` has no such share.
  void withdraw(u64 owner, const ShareId &id);
  void withdraw_all(u64 owner);

 private:
  size_t limit_;
  std::map<ShareId, Share> shares_;
};

// Half of the descriptors that this process may have; the other half is for connections.
size_t share_limit();

}  // namespace ckpt::softcuda::broker

// SPDX-License-Identifier: Apache-2.0
//
// The questions to the session's keeper about what its processes share: device memory
// (tools/session/device_shares.h) and events (tools/session/shared_events.h).
#pragma once

#include <array>
#include <compare>
#include <string>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {

using ShareId = std::array<u64, 2>;

// From the kernel's random numbers, so that it cannot be guessed.
Result<ShareId> new_share_id();

// Tells this process from the others of its session. 0: the system gives no random numbers.
u64 process_token();

// The handle of physical memory as a descriptor, and back. A context must be current.
Result<UniqueFd> export_physical(Physical physical);
Result<Physical> import_physical(const UniqueFd &memory);
std::string uuid_of(CUdevice device);

struct SharedPiece {
  u64 bytes = 0;
  std::string device;  // its UUID
  UniqueFd memory;     // a handle of physical memory
};

// A connection for some questions. None may be open when CRIU dumps the process.
class ShareLink {
 public:
  struct Offer {
    u64 bytes;
    std::string device;
    int memory;
    bool exported;  // by this process
    bool loaded;    // it has its contents
  };
  Result<> offer(const ShareId &id, const Offer &offer);
  // `had`: this process has used it before. `piece` is set if the state is There.
  Result<protocol::ShareState> want(const ShareId &id, bool had, SharedPiece &piece);
  Result<bool> own(const ShareId &id);
  Result<> loaded(const ShareId &id);
  Result<> away(const ShareId &id);
  Result<> done(const ShareId &id);

  // The memory of the session's board of events. The keeper notices from now on when this process
  // ends.
  Result<UniqueFd> event_board();

 private:
  Result<Message> ask(protocol::Type type, const ShareId &id, ByteView more = {},
                      std::span<const int> fds = {});
  Result<Message> send(protocol::Type type, const Writer &body, std::span<const int> fds = {});

  UniqueFd keeper_;
};

}  // namespace ckpt::cuda

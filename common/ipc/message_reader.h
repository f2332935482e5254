// SPDX-License-Identifier: Apache-2.0
//
// Reads a frame (unix_socket.h) as its bytes come, so that a server's only thread never waits for
// the rest of one. No byte behind the frame is read: its descriptors are then its own, because the
// kernel delivers them with the bytes with which they were sent (unix(7)).
#pragma once

#include <sys/types.h>

#include "common/ipc/unix_socket.h"

namespace ckpt {

// What comes with bytes.
struct Arrived {
  std::vector<UniqueFd> fds;
  // The process that has sent them, if the socket has SO_PASSCRED; 0: unknown.
  pid_t sender = 0;
};

// Some of the bytes, at least one; 0: the peer hung up. Appends to `arrived.fds`. An error, too, if
// nothing has come in time (SO_RCVTIMEO), or with MSG_DONTWAIT now.
Result<size_t> receive_some(int socket, std::span<char> into, Arrived &arrived, int flags);

class MessageReader {
 public:
  explicit MessageReader(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Receives once, to be called while nothing is ready(). False: the peer hung up between frames. A
  // hang-up inside a frame, a body over the limit or more descriptors than kMaxMessageFds is an
  // error. `flags`: MSG_DONTWAIT, if the socket may have nothing.
  Result<bool> receive(int socket, int flags);
  bool ready() const { return ready_; }
  // Part of a frame has come.
  bool has_begun() const { return header_bytes_ > 0; }
  // The frame that is ready. `sender`: the process that has sent all of its bytes; 0: unknown, or
  // several processes.
  Message take(pid_t *sender = nullptr);

 private:
  Result<> begin_body();

  size_t max_bytes_;
  MessageHeader header_{};
  size_t header_bytes_ = 0, body_bytes_ = 0;  // that have come
  Message message_;
  std::optional<pid_t> sender_;
  bool ready_ = false;
};

}  // namespace ckpt

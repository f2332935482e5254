// SPDX-License-Identifier: Apache-2.0
//
// UNIX-domain sockets that carry framed messages and file descriptors. Sockets are the owner's
// alone (folder 0700, socket 0600) and a peer is authorised by its uid: across PID namespaces
// SO_PEERCRED's pid reads 0, its uid does not (facts/criu.md).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// A frame on the wire is u32 size of the body, u16 type, u16 number of descriptors, then the body.
struct Message {
  u16 type = 0;
  Bytes body;
  std::vector<UniqueFd> fds;

  Reader reader() const { return Reader(body); }
};

inline constexpr size_t kMaxMessageBytes = 256u << 20;
inline constexpr size_t kMaxMessageFds = 8;

// Binds and listens at `path` (which must not exist), mode 0600, close-on-exec.
Result<UniqueFd> listen_unix(const std::string &path);
// Connects to `path`; the peer must have our uid, or be root.
Result<UniqueFd> connect_unix(const std::string &path);
// The same without waiting. No value: so many stand before us that the server takes no more.
Result<std::optional<UniqueFd>> connect_unix_at_once(const std::string &path);
// Accepts one connection whose uid is ours or root's; an unauthorised peer is closed and is an
// error.
Result<UniqueFd> accept_unix(int listener);
// Who connected, or listens. `pid` is 0 where it is in a PID namespace that we do not see.
Result<ucred> peer_credentials(int socket);
// Both ends close-on-exec.
Result<std::pair<UniqueFd, UniqueFd>> socket_pair();

// Sends the whole frame; SIGPIPE is never raised. `fds` stay the caller's.
Result<> send_message(int socket, u16 type, ByteView body = {}, std::span<const int> fds = {});
// Receives one whole frame. No value: the peer hung up between frames. A hang-up inside a frame, a
// body over `max_bytes` or more descriptors than kMaxMessageFds is an error.
Result<std::optional<Message>> receive_message(int socket, size_t max_bytes = kMaxMessageBytes);
// Bounds how long one receive_message() may block; zero means for ever.
Result<> set_receive_timeout(int socket, std::chrono::milliseconds timeout);

// Whole reads and writes, retried on EINTR and short counts. read_exactly fails at end of file.
Result<> write_all(int fd, ByteView data);
Result<> read_exactly(int fd, void *data, size_t size);

}  // namespace ckpt

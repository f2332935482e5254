// SPDX-License-Identifier: Apache-2.0
//
// UNIX-domain sockets that carry framed messages and file descriptors. Only the owner can reach a
// socket (folder 0700, socket 0600), and a peer is authorised by its uid. Its PID is not
// sufficient: SO_PEERCRED reports 0 for a peer in a PID namespace that is not visible here.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/io.h"  // IWYU pragma: export
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
// Connects to `path`; the peer must have our uid, or be root, or we are. Fails after 15 s if the
// server accepts no connection.
Result<UniqueFd> connect_unix(const std::string &path);
// The same without waiting. No value: the server's queue of connections is full.
Result<std::optional<UniqueFd>> connect_unix_at_once(const std::string &path);
// Accepts one connection of our own user or of root. The connection of any other user is closed,
// and an error.
Result<UniqueFd> accept_unix(int listener);
// Credentials of the process that connected, or that listens. `pid` is 0 for a process in a PID
// namespace that is not visible here.
Result<ucred> peer_credentials(int socket);
// Both ends close-on-exec.
Result<std::pair<UniqueFd, UniqueFd>> socket_pair();

// Sends the whole frame, without raising SIGPIPE. The caller keeps `fds`.
Result<> send_message(int socket, u16 type, ByteView body = {}, std::span<const int> fds = {});
// Receives one whole frame. No value: the peer hung up between frames. A hang-up inside a frame, a
// body over `max_bytes` or more descriptors than kMaxMessageFds is an error.
Result<std::optional<Message>> receive_message(int socket, size_t max_bytes = kMaxMessageBytes);
// One descriptor without a frame, with the one byte that must accompany it.
Result<> send_descriptor(int socket, int fd);
// No value: the peer hung up.
Result<std::optional<UniqueFd>> receive_descriptor(int socket);
// Limits how long one receive_message() may block; zero: no limit.
Result<> set_receive_timeout(int socket, std::chrono::milliseconds timeout);

}  // namespace ckpt

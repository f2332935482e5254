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
#include "common/base/clock.h"
#include "common/base/io.h"  // IWYU pragma: export
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// A frame on the wire is this header and the body.
struct MessageHeader {
  u32 size;  // of the body
  u16 type;
  u16 fds;  // the number of descriptors
};
static_assert(sizeof(MessageHeader) == 8);

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
// An error: the client is neither of our own user nor root.
Result<> check_client(int socket);
// Accepts one connection of our own user or of root. The connection of any other user is closed,
// and an error.
Result<UniqueFd> accept_unix(int listener);
// Credentials of the process that connected, or that listens. `pid` is 0 for a process in a PID
// namespace that is not visible here.
Result<ucred> peer_credentials(int socket);
// From now on, what is received has the PID of the process that has sent it (MessageReader).
// Another process cannot send in its name unless it has CAP_SYS_ADMIN (unix(7), SO_PASSCRED).
Result<> name_senders(int socket);
// Both ends close-on-exec.
Result<std::pair<UniqueFd, UniqueFd>> socket_pair();

// Sends the whole frame, without raising SIGPIPE. The caller keeps `fds`.
Result<> send_message(int socket, u16 type, ByteView body = {}, std::span<const int> fds = {});
// The same for a server's only thread: a peer that does not read what it is sent is an error.
Result<> send_message_at_once(int socket, u16 type, ByteView body = {},
                              std::span<const int> fds = {});
// Receives one whole frame. No value: the peer hung up between frames. A hang-up inside a frame, a
// body over `max_bytes` or more descriptors than kMaxMessageFds is an error.
Result<std::optional<Message>> receive_message(int socket, size_t max_bytes = kMaxMessageBytes);
// The same until `deadline`, which is for the whole frame.
Result<std::optional<Message>> receive_message(int socket, size_t max_bytes,
                                               Clock::time_point deadline);
// One descriptor without a frame, with the one byte that must accompany it.
Result<> send_descriptor(int socket, int fd);
// No value: the peer hung up.
Result<std::optional<UniqueFd>> receive_descriptor(int socket);
// Limits how long receive_message() waits for the next bytes; zero: no limit. A hostile peer can
// send one byte at a time: a server of several users gives a deadline instead.
Result<> set_receive_timeout(int socket, std::chrono::milliseconds timeout);

}  // namespace ckpt

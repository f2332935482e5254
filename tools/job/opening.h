// SPDX-License-Identifier: Apache-2.0
//
// The member's side of a channel (channel.h) until the peer has shown the job's key, for a process
// that must not wait: its bytes are taken as they come. Nothing behind the first message is read,
// so another process can go on.
#pragma once

#include "tools/job/channel.h"

namespace ckpt::tools {

class Opening {
 public:
  // Sends the greeting.
  static Result<Opening> begin(UniqueFd socket);

  int descriptor() const { return socket_.get(); }
  // Takes what has come, to be called when the socket is readable. True: the peer has the key. An
  // error: it has not, or has hung up.
  Result<bool> receive(const storage::Key &key);
  // The greetings and the first message, for Channel::resume().
  Bytes state() const;
  UniqueFd take_socket() { return std::move(socket_); }

 private:
  explicit Opening(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<size_t> wanted() const;
  bool is_sealed_by(const storage::Key &key) const;

  UniqueFd socket_;
  Bytes ours_, theirs_;  // our greeting; the peer's, and its first message
};

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// A connection between the agent and a tool or session keeper, and the socket on which the agent
// listens for tools.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "agent/ipc/own_fd.h"
#include "agent/protocol.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

// The longest message to an agent; bulk data goes through staging memory.
inline constexpr size_t kMaxRequestBytes = 1u << 20;
// The time that a message may take once its first byte has arrived. It is short because a fork() of
// the application waits meanwhile (own_fd.h).
inline constexpr std::chrono::seconds kMessageTimeout{5};

struct Incoming {
  protocol::Type type{};
  Bytes body;
  std::vector<OwnFd> fds;

  Reader reader() const { return Reader(body); }
};

class Channel {
 public:
  Channel() = default;
  explicit Channel(OwnFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  void hang_up() { socket_.close(); }
  Result<> send(protocol::Type type, const Writer &body = {}, std::span<const int> fds = {}) const;
  // Whether the peer has closed its end. Does not wait.
  bool hung_up() const;
  // Waits for a message without a time limit. No value: the peer hung up.
  Result<std::optional<Incoming>> receive() const;
  // The answer to a request. Failed and a hang-up are errors.
  Result<Incoming> answer() const;

 private:
  OwnFd socket_;
};

// Waits until `fd` can be read; signals and dumps do not end the wait.
Result<> wait_readable(int fd);

// agent-<pid>-<random>.sock in the session's folder. close() removes the file.
class Listener {
 public:
  Result<> open(const std::string &folder);
  void close();
  Result<Channel> accept() const;
  int fd() const { return socket_.get(); }
  const std::string &path() const { return path_; }

 private:
  OwnFd socket_;
  std::string path_;
};

}  // namespace ckpt::agent

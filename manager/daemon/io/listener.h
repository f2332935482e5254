// SPDX-License-Identifier: Apache-2.0
//
// The listening socket of ckptd, and the lock that distinguishes a running ckptd from a killed one.
// A connection that cannot be accepted now stays in the queue of the socket. It is not refused,
// because a refusal is final, while a program that waits in the queue continues unmanaged after a
// time and is accepted later.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "manager/policy/time.h"

namespace ckpt::manager {

class Listener {
 public:
  // `most`: the number of connections at a time.
  explicit Listener(size_t most) : most_(most) {}
  ~Listener();
  Listener(const Listener &) = delete;

  // Listens at `path`. An error: another ckptd does, or `path` is not a socket.
  Result<> open(const std::string &path);
  // To be polled; negative: nothing is accepted now, with `inside` connections.
  int fd(Time now, size_t inside);
  // In milliseconds: until fd() may accept again although no connection has ended; negative: never.
  int timeout(Time now) const;

  struct Connection {
    UniqueFd socket;
    uid_t uid;
    pid_t pid;
  };
  // No value: the peer has disconnected, or no descriptor is available.
  std::optional<Connection> accept(Time now);

 private:
  void warn(Time now, const std::string &why);

  size_t most_;
  std::string path_;  // empty: does not listen
  UniqueFd lock_, listener_;
  Time paused_at_ = -std::chrono::hours(1);  // for lack of descriptors
  Time warned_at_ = paused_at_;
};

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
//
// Where ckptd is found: its socket, and the lock that tells it from one that was killed. Who cannot
// be let in for now waits in the socket's queue and is not refused: a refusal is for good, and a
// program that waits there goes on without us when its patience ends, and is let in later.
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
  // `most`: connections at a time.
  explicit Listener(size_t most) : most_(most) {}
  ~Listener();
  Listener(const Listener &) = delete;

  // Listens at `path`. An error: another ckptd does, or something else is there.
  Result<> open(const std::string &path);
  // To be polled; negative: nobody is let in for now, with so many inside.
  int fd(Time now, size_t inside);
  // Until fd() may be another although nobody has left, in milliseconds; negative: never.
  int timeout(Time now) const;

  struct Guest {
    UniqueFd socket;
    uid_t uid;
    pid_t pid;
  };
  // None: he has gone again, or there is no descriptor for him.
  std::optional<Guest> accept(Time now);

 private:
  void complain(Time now, const std::string &why);

  size_t most_;
  std::string path_;  // empty: does not listen
  UniqueFd lock_, listener_;
  Time shut_at_ = -std::chrono::hours(1);  // for lack of descriptors
  Time said_at_ = shut_at_;
};

}  // namespace ckpt::manager

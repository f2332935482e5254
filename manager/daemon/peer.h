// SPDX-License-Identifier: Apache-2.0
//
// One connection of the daemon. It never waits for the other side: what has come is cut into frames
// (common/ipc.h), what cannot be sent yet is kept, and both have a bound.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/managed/messages.h"
#include "common/unique_fd.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

// Cuts a stream of bytes into frames without descriptors.
class Frames {
 public:
  struct Frame {
    u16 type = 0;
    Bytes body;
  };
  void add(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Nothing: none is complete. An error: no frame of this protocol begins so.
  Result<std::optional<Frame>> next();

 private:
  Bytes bytes_;
};

class Peer {
 public:
  Peer(UniqueFd fd, ProgramId id, uid_t uid, pid_t pid)
      : id(id), uid(uid), pid(pid), fd_(std::move(fd)) {}

  const ProgramId id;
  const uid_t uid;
  const pid_t pid;       // as we see it
  pid_t holder = 0;      // the process that has its device memory, if another one
  bool joined = false;   // it is a program
  bool closing = false;  // is hung up once everything is sent

  // Device memory of that process is the program's.
  bool has(pid_t process) const { return process == pid || (holder != 0 && process == holder); }
  int fd() const { return fd_.get(); }
  bool wants_to_send() const { return !out_.empty(); }
  // Takes in what has come. False: the other side has hung up.
  Result<bool> receive();
  Result<std::optional<Frames::Frame>> next() { return frames_.next(); }
  // An error: it does not read what it is sent.
  Result<> send(const managed::ToProgram &message);
  Result<> flush();

 private:
  UniqueFd fd_;
  Frames frames_;
  Bytes out_;
};

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
//
// One connection of the daemon. It never waits for the other side: what has come is cut into frames
// (common/ipc/unix_socket.h), what cannot be sent yet is kept, and both have a bound. Nothing is
// read before what has come is heard, so who talks faster than it is heard waits in its own send().
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>

#include "common/base/unique_fd.h"
#include "common/managed/messages.h"
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
  // next() has something to say: a frame is complete, or what has come can never be one.
  bool ready() const;
  // Nothing: none is complete. An error: no frame of this protocol begins so.
  Result<std::optional<Frame>> next();

 private:
  Bytes bytes_;
};

// A message as it is sent, frame and all.
Bytes as_frame(const managed::ToProgram &message);

class Peer {
 public:
  Peer(UniqueFd fd, ProgramId id, uid_t uid, pid_t pid)
      : id(id), uid(uid), pid(pid), fd_(std::move(fd)) {}

  const ProgramId id;
  const uid_t uid;
  const pid_t pid;      // as we see it
  pid_t holder = 0;     // the process that has its device memory, if another one
  bool joined = false;  // it is a program

  // Device memory of that process is the program's.
  bool has(pid_t process) const { return process == pid || (holder != 0 && process == holder); }
  int fd() const { return fd_.get(); }
  short events() const;  // that poll() is to look for

  // Takes in some of what has come; for when nothing is ready(). False: the other side has hung up.
  Result<bool> receive();
  bool ready() const { return !awaits_status() && frames_.ready(); }
  Result<std::optional<Frames::Frame>> next() { return frames_.next(); }

  // An error: it does not read what it is sent.
  Result<> send(const managed::ToProgram &message);
  Result<> flush();
  bool wants_to_send() const { return status_ != nullptr || !out_.empty(); }

  // A status may be as large as all other messages of all peers together. So those who ask at the
  // same time share one, a peer has one at a time, and is not heard before it has read that.
  void ask_status() { asks_ = true; }
  bool asks() const { return asks_ && !wants_to_send(); }
  bool awaits_status() const { return asks_ || status_ != nullptr; }
  // `frame`: what was asked for, to be read until then.
  Result<> answer(std::shared_ptr<const Bytes> frame, Time read_by);
  std::optional<Time> read_by() const { return status_ ? std::optional(read_by_) : std::nullopt; }

 private:
  UniqueFd fd_;
  Frames frames_;
  Bytes out_;  // goes behind status_
  bool asks_ = false;
  std::shared_ptr<const Bytes> status_;  // is being sent; null: none
  size_t status_sent_ = 0;               // bytes of it
  Time read_by_{0};
};

}  // namespace ckpt::manager

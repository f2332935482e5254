// SPDX-License-Identifier: Apache-2.0
//
// One connection of the daemon. It never blocks: received bytes are cut into frames
// (common/ipc/unix_socket.h), bytes that cannot be sent yet are kept, and both are bounded. Nothing
// is read while a frame is unprocessed, so a peer that sends faster than the daemon processes
// blocks in its own send(2).
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
  // next() returns a frame or an error: a frame is complete, or the bytes can never become one.
  bool ready() const;
  // No value: no frame is complete. An error: the bytes are not a frame of this protocol.
  Result<std::optional<Frame>> next();

 private:
  Bytes bytes_;
};

// The bytes of a message as they are sent, header included.
Bytes as_frame(const managed::ToProgram &message);

class Peer {
 public:
  Peer(UniqueFd fd, ProgramId id, uid_t uid, pid_t pid, u64 newcomer)
      : id(id), uid(uid), pid(pid), newcomer(newcomer), fd_(std::move(fd)) {}

  const ProgramId id;
  const uid_t uid;
  const pid_t pid;      // in the PID namespace of the daemon
  const u64 newcomer;   // its number for the Listener
  pid_t holder = 0;     // the process that holds its device memory; 0: the program itself
  bool joined = false;  // it has joined as a program

  // The device memory of that process belongs to the program.
  bool has(pid_t process) const { return process == pid || (holder != 0 && process == holder); }
  int fd() const { return fd_.get(); }
  short events() const;  // for poll(2)

  // Receives some bytes, to be called while nothing is ready(). False: the peer has disconnected.
  Result<bool> receive();
  bool ready() const { return !awaits_status() && frames_.ready(); }
  Result<std::optional<Frames::Frame>> next() { return frames_.next(); }

  // An error: the peer does not read what it is sent.
  Result<> send(const managed::ToProgram &message);
  Result<> flush();
  bool wants_to_send() const { return status_ != nullptr || !out_.empty(); }

  // A status may be as large as all other messages of all peers together. So peers that ask at the
  // same time share one, and nothing is read from a peer until it has read the status that was sent
  // to it.
  void ask_status() { asks_ = true; }
  bool asks() const { return asks_ && !wants_to_send(); }
  bool awaits_status() const { return asks_ || status_ != nullptr; }
  // `frame`: the status, which the peer has to read until `read_by`.
  Result<> answer(std::shared_ptr<const Bytes> frame, Time read_by);
  std::optional<Time> read_by() const { return status_ ? std::optional(read_by_) : std::nullopt; }

 private:
  UniqueFd fd_;
  Frames frames_;
  Bytes out_;  // is sent after status_
  bool asks_ = false;
  std::shared_ptr<const Bytes> status_;  // being sent; null: none
  size_t status_sent_ = 0;               // bytes of it
  Time read_by_{0};
};

}  // namespace ckpt::manager

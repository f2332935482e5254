// SPDX-License-Identifier: Apache-2.0
//
// The proxy's end of the ring (wire.h): commands come out, replies and completions go in. What the
// client wrote is checked before it is used; it cannot make this process read or write outside the
// ring.
#pragma once

#include <mutex>

#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/wire.h"

namespace ckpt::ocl {

class Channel {
 public:
  // Makes the ring; a client is greeted with it later.
  static Result<Channel> make();
  Channel(Channel &&o) noexcept : fd_(std::move(o.fd_)), memory_(std::move(o.memory_)) {}

  void connect(UniqueFd socket) {
    socket_ = std::move(socket);
    client_ = socket_.get();
  }
  // Whether a client is connected and has hung up; for a thread that watches the one that serves.
  bool client_is_gone() const;
  int socket() const { return socket_.get(); }
  int memory_fd() const { return fd_.get(); }

  struct Incoming {
    CommandHeader header;
    ByteView payload;  // valid until done()
  };
  // Whether a command is there already.
  bool ready();
  // The next command. No value: the client is gone, or wrote nonsense.
  std::optional<Incoming> next();
  void done();

  Result<> reply(i32 status, ByteView bytes = {});
  void complete(const Completion &c);

  // A part of the staging memory; nullptr if it is not all inside.
  std::byte *staging(u64 offset, u64 bytes);

 private:
  Channel() = default;
  Header &header() { return *reinterpret_cast<Header *>(memory_.data()); }
  bool wait_for_command();
  bool hung_up() const;

  UniqueFd fd_;
  Mapping memory_;
  UniqueFd socket_;
  std::atomic<int> client_{-1};  // socket_, for client_is_gone()
  Bytes from_socket_;            // payload of a command that did not fit the ring
  u64 next_tail_ = 0;
  std::mutex completions_;
};

}  // namespace ckpt::ocl

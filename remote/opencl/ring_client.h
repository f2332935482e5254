// SPDX-License-Identifier: Apache-2.0
//
// The client's end of a ring (ring/wire.h), for the far relay: one thread sends commands,
// another one takes replies and completions.
#pragma once

#include <optional>

#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "ring/wire.h"

namespace ckpt::remote {

class RingClient {
 public:
  // Receives the greeting of a proxy; `platforms`: what it says of its devices.
  static Result<RingClient> greet(UniqueFd socket, Bytes &platforms);
  RingClient(RingClient &&o) noexcept
      : socket_(std::move(o.socket_)), memory_(std::move(o.memory_)) {}

  // Waits for room in the ring.
  Result<> send(ocl::CommandHeader header, ByteView payload);
  // Sends a descriptor; the command that refers to it follows.
  Result<> send_fd(u16 type, int fd);

  struct Reply {
    i32 status = 0;
    Bytes bytes;
  };
  // Sends a question and waits for its answer. Only while no other thread uses the ring.
  Result<Reply> round_trip(ocl::Op op, ByteView payload);
  bool reply_ready();
  Result<Reply> take_reply();
  // Null: there is none. It keeps its place until pop_completion().
  const ocl::Completion *next_completion();
  void pop_completion();
  // Waits until there is a reply or a completion, or for a while.
  void wait();

  // A part of the staging memory; nullptr if it is not completely inside.
  std::byte *staging(u64 offset, u64 bytes);
  int socket() const { return socket_.get(); }

 private:
  RingClient(UniqueFd socket, Mapping memory)
      : socket_(std::move(socket)), memory_(std::move(memory)) {}
  ocl::Header &header() { return *reinterpret_cast<ocl::Header *>(memory_.data()); }
  Result<> wait_for_room(size_t bytes);
  bool anything();

  UniqueFd socket_;
  Mapping memory_;
  ocl::Completion completion_{};
};

}  // namespace ckpt::remote

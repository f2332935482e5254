// SPDX-License-Identifier: Apache-2.0
//
// The proxy's end of the ring (wire.h): it receives commands and sends replies and completions. The
// application's memory may be damaged, so everything in the ring is checked: it cannot make this
// process read or write outside the ring.
#pragma once

#include <functional>
#include <mutex>

#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "ring/wire.h"

namespace ckpt::ocl {

class Channel {
 public:
  // Creates the ring. The greeting passes it to the client.
  static Result<Channel> make();
  Channel(Channel &&o) noexcept : fd_(std::move(o.fd_)), memory_(std::move(o.memory_)) {}

  void connect(UniqueFd socket) {
    socket_ = std::move(socket);
    client_ = socket_.get();
  }
  // For a thread of its own: returns once a client is gone, without waiting for what the serving
  // thread does.
  void wait_for_end_of_client() const;
  int socket() const { return socket_.get(); }
  int memory_fd() const { return fd_.get(); }

  struct Incoming {
    CommandHeader header;
    ByteView payload;  // valid until done()
    int fd = -1;       // a descriptor that came with it, valid until done()
  };
  // Whether the ring holds a command.
  bool ready();
  // Waits for the next command. No value: the client is gone, or the ring is damaged.
  std::optional<Incoming> next();
  void done();

  Result<> reply(i32 status, ByteView bytes = {});
  void complete(const Completion &c);
  // Passes on at most kMostInRecord bytes that were written to standard output. Returns false if
  // the client does not take them.
  bool output(OutputWay way, ByteView bytes);

  // A part of the staging memory; nullptr if it is not completely inside.
  std::byte *staging(u64 offset, u64 bytes);

 private:
  Channel() = default;
  Header &header() { return *reinterpret_cast<Header *>(memory_.data()); }
  bool wait_for_command();
  // Waits until the client has made room. Returns false if it is gone.
  bool wait_for_client(const std::function<bool()> &room);
  bool hung_up() const;
  bool client_is_gone() const;

  UniqueFd fd_;
  Mapping memory_;
  UniqueFd socket_;
  std::atomic<int> client_{-1};  // socket_, for client_is_gone()
  Bytes from_socket_;            // the payload of a command with kOnSocket
  UniqueFd fd_from_socket_;
  u64 next_tail_ = 0;
  std::mutex completions_;
};

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
//
// Frames (frames.h) over a stream. One thread receives; any thread sends. Bytes are read ahead in
// pieces of 64 KiB, but the bytes of a transfer go straight to their place.
#pragma once

#include <memory>
#include <mutex>

#include "remote/transport/frames.h"
#include "remote/transport/stream.h"

namespace ckpt::remote {

class Connection {
 public:
  explicit Connection(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  struct Received {
    Frame type{};
    ByteView body;  // valid until the next receive()
  };
  // An error, too, if the peer hung up; ended() then says whether it was between two frames.
  Result<Received> receive(size_t max_body = kMaxBody);
  bool ended() const { return ended_; }
  // Goes on with the stream that `over` makes of this one. `ahead`: what was read of it already. To
  // be called before another thread uses this.
  using Over = std::unique_ptr<Stream>(std::unique_ptr<Stream> below, ByteView ahead);
  void replace_stream(Over *over);
  // The bulk that follows the frame.
  Result<> receive_bulk(std::span<std::byte> into);

  // What several frames are made of, to be sent with one call.
  class Batch {
   public:
    // A frame with a body of these parts.
    void add(Frame type, std::span<const ByteView> body);
    void add(Frame type, std::initializer_list<ByteView> body) {
      add(type, std::span(body.begin(), body.size()));
    }
    bool empty() const { return bytes_.empty(); }
    size_t size() const { return bytes_.size(); }

   private:
    friend class Connection;
    Bytes bytes_;
  };
  // Sends the batch and then the bulk of its last frame, and empties the batch.
  Result<> send(Batch &batch, ByteView bulk = {});
  Result<> send(Frame type, ByteView body = {});
  Stream &stream() { return *stream_; }

 private:
  Result<> read_exactly(std::span<std::byte> into);
  Result<> read_body(size_t bytes);

  std::unique_ptr<Stream> stream_;
  std::mutex send_mutex_;
  Bytes ahead_, body_;  // what was read ahead; the body of the frame
  size_t ahead_at_ = 0, ahead_end_ = 0;
  bool between_frames_ = true, ended_ = false;
};

}  // namespace ckpt::remote

// SPDX-License-Identifier: Apache-2.0
//
// A stream that compresses what it writes if the link is slower than the compression.
//
// What is written becomes blocks: {u32 raw bytes, u32 stored bytes}, then the stored bytes, a zstd
// frame. If `stored bytes` is 0, the raw bytes follow. Blocks are compressed independently, so that
// the length of one reveals nothing about the content of another.
//
// A piece is compressed only if that takes less than half of the time that the link needs for it: a
// wrong guess must not slow a fast link down. In addition, either the link is busy for longer with
// what the socket still holds, or the last piece shrank to half or less, so that compressing and
// sending together take no longer than sending. All times are measured. After pieces that zstd
// cannot shrink, the writer tries more and more seldom.
#pragma once

#include <memory>

#include "remote/transport/connection.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace ckpt::remote {

// What TCP_INFO says of a socket. All zero: not TCP, or nothing was sent yet.
struct LinkTimes {
  double until_sent = 0;  // seconds for what the socket holds and has not sent
  double per_byte = 0;    // seconds, at the rate at which the peer receives
};
LinkTimes link_times(int socket);

class PackedStream final : public Stream {
 public:
  static constexpr size_t kPiece = 256u << 10;  // the most that is compressed at once

  using Measure = LinkTimes (*)(int socket);

  // `ahead`: what was read of `below` already.
  PackedStream(std::unique_ptr<Stream> below, ByteView ahead, Measure measure = link_times);
  ~PackedStream() override;

  Result<size_t> read_some(std::span<std::byte> into) override;
  Result<> write(ByteView data) override;
  void set_deadline(std::optional<Clock::time_point> at) override { below_->set_deadline(at); }
  void shut_down() override { below_->shut_down(); }
  int descriptor() const override { return below_->descriptor(); }
  bool is_plain() const override { return false; }

 private:
  struct Block {
    u32 raw, stored;
  };

  bool worth_a_try(size_t bytes);
  bool compress(ByteView piece);  // into out_; false: it stays as long
  Result<> write_as_it_is(ByteView piece);
  Result<size_t> read_below(std::span<std::byte> into);
  Result<bool> read_exactly(std::span<std::byte> into);  // false: the peer hung up
  Result<bool> read_block(std::span<std::byte> into, size_t &arrived);

  std::unique_ptr<Stream> below_;
  Measure measure_;

  // Of the writer.
  ZSTD_CCtx_s *compressor_ = nullptr;  // made when it is needed; null: there is no memory for it
  bool off_;
  Bytes out_;
  double seconds_per_byte_;
  bool halves_ = false;  // the last piece that was compressed has at most half of its length
  u32 skip_ = 0, next_skip_ = 1;  // pieces that are sent as they are

  // Of the reader.
  ZSTD_DCtx_s *decompressor_ = nullptr;
  Bytes ahead_, stored_, raw_;
  size_t ahead_at_ = 0, raw_at_ = 0;
  u32 left_ = 0;  // of a block that is as it is
};

// From now on the connection is packed, unless it has no TLS: then it leads to this node. To be
// called at the same place of the conversation on both sides.
void pack(Connection &connection);

}  // namespace ckpt::remote

// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/connection.h"

#include <algorithm>

namespace ckpt::remote {
namespace {

constexpr size_t kReadAhead = 64u << 10;
constexpr size_t kGrowth = 1u << 20;  // of a body, as its bytes arrive

}  // namespace

Result<> Connection::read_exactly(std::span<std::byte> into) {
  while (!into.empty()) {
    if (ahead_at_ < ahead_end_) {
      size_t n = std::min(into.size(), ahead_end_ - ahead_at_);
      std::memcpy(into.data(), ahead_.data() + ahead_at_, n);
      ahead_at_ += n;
      into = into.subspan(n);
      continue;
    }
    bool direct = into.size() >= kReadAhead;
    if (!direct) ahead_.resize(kReadAhead);
    CKPT_TRY(size_t n, stream_->read_some(direct ? into : std::span(ahead_)));
    ended_ = n == 0 && between_frames_;
    if (n == 0) return fail("the peer hung up");
    between_frames_ = false;
    if (direct)
      into = into.subspan(n);
    else
      ahead_at_ = 0, ahead_end_ = n;
  }
  return {};
}

// No more memory than has arrived, whatever the header says.
Result<> Connection::read_body(size_t bytes) {
  body_.clear();
  while (body_.size() < bytes) {
    size_t at = body_.size(), n = std::min(bytes - at, kGrowth);
    body_.resize(at + n);
    CKPT_CHECK(read_exactly(std::span(body_).subspan(at)));
  }
  if (body_.capacity() > 4 * kGrowth && bytes <= kGrowth) body_.shrink_to_fit();
  return {};
}

Result<Connection::Received> Connection::receive(size_t max_body) {
  FrameHeader h{};
  between_frames_ = ahead_at_ == ahead_end_;
  CKPT_CHECK(read_exactly(std::as_writable_bytes(std::span(&h, 1))));
  if (h.bytes > max_body || h.zero != 0)
    return fail("the peer sent a frame of type {} and {} bytes, which is none of this protocol",
                h.type, h.bytes);
  CKPT_CHECK(read_body(h.bytes));
  return Received{static_cast<Frame>(h.type), body_};
}

void Connection::replace_stream(Over *over) {
  stream_ = over(std::move(stream_), ByteView(ahead_).subspan(ahead_at_, ahead_end_ - ahead_at_));
  ahead_at_ = ahead_end_ = 0;
}

Result<> Connection::receive_bulk(std::span<std::byte> into) { return read_exactly(into); }

void Connection::Batch::add(Frame type, std::span<const ByteView> body) {
  size_t bytes = 0;
  for (ByteView part : body) bytes += part.size();
  FrameHeader h{static_cast<u32>(bytes), static_cast<u16>(type), 0};
  size_t at = bytes_.size();
  bytes_.resize(at + sizeof h + bytes);
  std::memcpy(bytes_.data() + at, &h, sizeof h);
  at += sizeof h;
  for (ByteView part : body) {
    if (!part.empty()) std::memcpy(bytes_.data() + at, part.data(), part.size());
    at += part.size();
  }
}

Result<> Connection::send(Batch &batch, ByteView bulk) {
  std::lock_guard lock(send_mutex_);
  Result<> sent = stream_->write(batch.bytes_);
  if (sent && !bulk.empty()) sent = stream_->write(bulk);
  batch.bytes_.clear();
  return sent;
}

Result<> Connection::send(Frame type, ByteView body) {
  Batch one;
  one.add(type, {body});
  return send(one);
}

}  // namespace ckpt::remote

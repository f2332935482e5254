// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/packed_stream.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ckpt::remote {
namespace {

constexpr size_t kLeast = 16u << 10;  // shorter pieces are not compressed
constexpr int kLevel = 1;
constexpr u32 kMostSkipped = 64;
// Before the first measurement: so little that the first pieces are tried on most links.
constexpr double kFirstGuess = 1 / 2e9;
// Other data may take less time. So each piece that is not tried makes the measurement count less.
constexpr double kForgetting = 0.99;

// In the environment of the side that sends.
bool compression_is_off() {
  const char *choice = std::getenv("CKPT_REMOTE_COMPRESSION");
  return choice && std::string_view(choice) == "no";
}

size_t bytes_worth_sending(size_t raw) { return raw - raw / 16; }

}  // namespace

LinkTimes link_times(int socket) {
  tcp_info info{};
  socklen_t n = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &n) < 0 || info.tcpi_delivery_rate == 0)
    return {};
  double per_byte = 1 / static_cast<double>(info.tcpi_delivery_rate);
  return {info.tcpi_notsent_bytes * per_byte, per_byte};
}

PackedStream::PackedStream(std::unique_ptr<Stream> below, ByteView ahead, Measure measure)
    : below_(std::move(below)),
      measure_(measure),
      off_(compression_is_off()),
      seconds_per_byte_(kFirstGuess),
      ahead_(ahead.begin(), ahead.end()) {}

PackedStream::~PackedStream() {
  ::ZSTD_freeCCtx(compressor_);
  ::ZSTD_freeDCtx(decompressor_);
}

bool PackedStream::worth_a_try(size_t bytes) {
  if (off_ || bytes < kLeast) return false;
  if (skip_ > 0) return --skip_, false;
  LinkTimes link = measure_(descriptor());
  double takes = static_cast<double>(bytes) * seconds_per_byte_;
  if (2 * seconds_per_byte_ < link.per_byte) return halves_ || takes < link.until_sent;
  seconds_per_byte_ *= kForgetting;
  return false;
}

bool PackedStream::compress(ByteView piece) {
  if (!compressor_) compressor_ = ::ZSTD_createCCtx();
  if (!compressor_) return false;
  out_.resize(sizeof(Block) + ::ZSTD_compressBound(kPiece));
  auto begin = Clock::now();
  size_t n =
      ::ZSTD_compressCCtx(compressor_, out_.data() + sizeof(Block),
                          bytes_worth_sending(piece.size()), piece.data(), piece.size(), kLevel);
  std::chrono::duration<double> took = Clock::now() - begin;
  seconds_per_byte_ += (took.count() / static_cast<double>(piece.size()) - seconds_per_byte_) / 4;
  halves_ = !::ZSTD_isError(n) && n <= piece.size() / 2;
  if (::ZSTD_isError(n)) {  // no room: it is not worth sending
    skip_ = next_skip_;
    next_skip_ = std::min(next_skip_ * 2, kMostSkipped);
    return false;
  }
  next_skip_ = 1;
  Block b{static_cast<u32>(piece.size()), static_cast<u32>(n)};
  std::memcpy(out_.data(), &b, sizeof b);
  out_.resize(sizeof b + n);
  return true;
}

// The head goes together with the first bytes: by itself it would be a TLS record and a packet.
Result<> PackedStream::write_as_it_is(ByteView piece) {
  Block b{static_cast<u32>(piece.size()), 0};
  size_t first = std::min(piece.size(), kLeast - sizeof b);
  out_.resize(sizeof b + first);
  std::memcpy(out_.data(), &b, sizeof b);
  std::memcpy(out_.data() + sizeof b, piece.data(), first);
  CKPT_CHECK(below_->write(out_));
  return first == piece.size() ? Result<>{} : below_->write(piece.subspan(first));
}

Result<> PackedStream::write(ByteView data) {
  while (!data.empty()) {
    ByteView piece = data.first(std::min(data.size(), kPiece));
    data = data.subspan(piece.size());
    if (worth_a_try(piece.size()) && compress(piece))
      CKPT_CHECK(below_->write(out_));
    else
      CKPT_CHECK(write_as_it_is(piece));
  }
  return {};
}

Result<size_t> PackedStream::read_below(std::span<std::byte> into) {
  size_t n = std::min(into.size(), ahead_.size() - ahead_at_);
  if (n == 0) return below_->read_some(into);
  std::memcpy(into.data(), ahead_.data() + ahead_at_, n);
  ahead_at_ += n;
  if (ahead_at_ == ahead_.size()) ahead_ = {}, ahead_at_ = 0;
  return n;
}

Result<bool> PackedStream::read_exactly(std::span<std::byte> into) {
  while (!into.empty()) {
    CKPT_TRY(size_t n, read_below(into));
    if (n == 0) return false;
    into = into.subspan(n);
  }
  return true;
}

// Begins the next block. A compressed one is complete then: in `into` if it has room, which
// `arrived` says, or else in raw_.
Result<bool> PackedStream::read_block(std::span<std::byte> into, size_t &arrived) {
  Block b{};
  CKPT_TRY(bool more, read_exactly(std::as_writable_bytes(std::span(&b, 1))));
  if (!more) return false;
  if (b.stored == 0) {
    left_ = b.raw;
    return true;
  }
  if (b.raw > kPiece || b.stored >= b.raw)
    return fail("the peer sent a block of {} bytes for {} bytes, which is none of this protocol",
                b.stored, b.raw);
  stored_.resize(b.stored);
  CKPT_TRY(more, read_exactly(stored_));
  if (!more) return false;
  bool direct = into.size() >= b.raw;
  raw_.resize(direct ? 0 : b.raw);
  raw_at_ = 0;
  if (!decompressor_) decompressor_ = ::ZSTD_createDCtx();
  if (!decompressor_) return fail("there is no memory to decompress what the peer sent");
  size_t n = ::ZSTD_decompressDCtx(decompressor_, direct ? into.data() : raw_.data(), b.raw,
                                   stored_.data(), stored_.size());
  if (::ZSTD_isError(n) || n != b.raw) {
    raw_.clear();
    return fail("the peer sent a damaged block");
  }
  if (direct) arrived = b.raw;
  return true;
}

Result<size_t> PackedStream::read_some(std::span<std::byte> into) {
  if (into.empty()) return 0u;
  for (;;) {
    if (raw_at_ < raw_.size()) {
      size_t n = std::min(into.size(), raw_.size() - raw_at_);
      std::memcpy(into.data(), raw_.data() + raw_at_, n);
      raw_at_ += n;
      return n;
    }
    if (left_ > 0) {
      CKPT_TRY(size_t n, read_below(into.first(std::min<size_t>(into.size(), left_))));
      left_ -= static_cast<u32>(n);
      return n;
    }
    size_t arrived = 0;
    CKPT_TRY(bool more, read_block(into, arrived));
    if (!more || arrived > 0) return arrived;
  }
}

void pack(Connection &connection) {
  if (connection.stream().is_plain()) return;
  connection.replace_stream(
      [](std::unique_ptr<Stream> below, ByteView ahead) -> std::unique_ptr<Stream> {
        return std::make_unique<PackedStream>(std::move(below), ahead);
      });
}

}  // namespace ckpt::remote

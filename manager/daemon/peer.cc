// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/peer.h"

#include <sys/socket.h>

#include <array>

namespace ckpt::manager {
namespace {

constexpr size_t kHeaderBytes = 8;  // u32 size of the body, u16 type, u16 descriptors
constexpr size_t kReadBytes = 16u << 10;
constexpr size_t kMostUnsent = managed::kMaxStatusBytes + kReadBytes;

}  // namespace

Result<std::optional<Frames::Frame>> Frames::next() {
  if (bytes_.size() < kHeaderBytes) return std::nullopt;
  Reader header(bytes_);
  u32 size = header.get<u32>();
  Frame frame{header.get<u16>(), {}};
  if (header.get<u16>() != 0) return fail("a message came with descriptors");
  if (size > managed::kMaxBodyBytes) return fail("a message of {} bytes is too large", size);
  if (header.left() < size) return std::nullopt;
  ByteView body = header.raw(size);
  frame.body.assign(body.begin(), body.end());
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(kHeaderBytes + size));
  return frame;
}

Result<bool> Peer::receive() {
  std::array<std::byte, kReadBytes> buffer;
  ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n < 0 && errno == ECONNRESET) return false;
  if (n < 0) return fail_errno("cannot receive a message");
  frames_.add(view(buffer.data(), static_cast<size_t>(n)));
  return n > 0;
}

Result<> Peer::send(const managed::ToProgram &message) {
  Writer body = managed::encode(message);
  if (out_.size() + body.size() > kMostUnsent) return fail("it does not read what it is sent");
  Writer frame;
  frame.put(static_cast<u32>(body.size())).put(managed::number_of(message)).put<u16>(0);
  frame.raw(body.bytes().data(), body.size());
  out_.insert(out_.end(), frame.bytes().begin(), frame.bytes().end());
  return flush();
}

Result<> Peer::flush() {
  while (!out_.empty()) {
    ssize_t n = ::send(fd(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0) return fail_errno("cannot send a message");
    out_.erase(out_.begin(), out_.begin() + n);
  }
  return {};
}

}  // namespace ckpt::manager

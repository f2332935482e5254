// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

namespace ckpt::manager {
namespace {

constexpr size_t kHeaderBytes = 8;  // u32 size of the body, u16 type, u16 descriptors
constexpr size_t kReadBytes = 16u << 10;
// The answers to all requests that a program may have (policy/messages.cc), if all are denied.
constexpr size_t kMostUnsent = 128u << 10;

struct Header {
  u32 size = 0;
  u16 type = 0, descriptors = 0;
  bool good() const { return descriptors == 0 && size <= managed::kMaxBodyBytes; }
};

Header read_header(Reader &from) {
  Header h;
  h.size = from.get<u32>();
  h.type = from.get<u16>();
  h.descriptors = from.get<u16>();
  return h;
}

// Sends what the socket takes now, and returns the number of bytes.
Result<size_t> send_some(int socket, ByteView bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    ssize_t n =
        ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return fail_errno("cannot send a message");
    sent += static_cast<size_t>(n);
  }
  return sent;
}

}  // namespace

bool Frames::ready() const {
  if (bytes_.size() < kHeaderBytes) return false;
  Reader reader(bytes_);
  Header h = read_header(reader);
  return !h.good() || reader.left() >= h.size;
}

Result<std::optional<Frames::Frame>> Frames::next() {
  if (!ready()) return std::nullopt;
  Reader reader(bytes_);
  Header h = read_header(reader);
  if (h.descriptors != 0) return fail("a message carries file descriptors");
  if (!h.good()) return fail("a message of {} bytes is too large", h.size);
  ByteView body = reader.raw(h.size);
  Frame frame{h.type, Bytes(body.begin(), body.end())};
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(kHeaderBytes + h.size));
  return frame;
}

Bytes as_frame(const managed::ToProgram &message) {
  Writer body = managed::encode(message), frame;
  frame.put(static_cast<u32>(body.size())).put(managed::number_of(message)).put<u16>(0);
  frame.raw(body.bytes().data(), body.size());
  return frame.take();
}

short Peer::events() const {
  bool reads = !awaits_status() && !frames_.ready();
  return static_cast<short>((reads ? POLLIN : 0) | (wants_to_send() ? POLLOUT : 0));
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
  Bytes frame = as_frame(message);
  if (out_.size() + frame.size() > kMostUnsent) return fail("it does not read its messages");
  out_.insert(out_.end(), frame.begin(), frame.end());
  return flush();
}

Result<> Peer::answer(std::shared_ptr<const Bytes> frame, Time read_by) {
  asks_ = false;
  status_ = std::move(frame);
  status_sent_ = 0;
  read_by_ = read_by;
  return flush();
}

Result<> Peer::flush() {
  if (status_) {
    CKPT_TRY(size_t sent, send_some(fd(), ByteView(*status_).subspan(status_sent_)));
    status_sent_ += sent;
    if (status_sent_ < status_->size()) return {};
    status_.reset();
  }
  CKPT_TRY(size_t sent, send_some(fd(), out_));
  out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent));
  return {};
}

}  // namespace ckpt::manager

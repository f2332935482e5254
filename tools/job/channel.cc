// SPDX-License-Identifier: Apache-2.0
#include "tools/job/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/clock.h"
#include "common/base/test_points.h"
#include "storage/format/uuid.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kMagic = "ckptjob2";
constexpr auto kGreetingTimeout = 5s;
constexpr size_t kMaxFrame = 16 << 20;

}  // namespace

// A peer on a failed machine sends nothing. TCP keepalive detects this after about 20 s.
void set_up_job_socket(int socket) {
  auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  timeval limit{20, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

namespace {

Result<> send_all(int socket, ByteView data) {
  while (!data.empty()) {
    ssize_t n = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot send");
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

// The deadline is for all of the bytes, so a peer cannot occupy us by sending single bytes slowly.
Result<> read_all(int socket, std::span<std::byte> into, Clock::time_point deadline) {
  while (!into.empty()) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd p{socket, POLLIN, 0};
    int ready = ::poll(&p, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 1000)));
    if (ready < 0 && errno != EINTR) return fail_errno("cannot wait for the peer");
    if (ready <= 0 && Clock::now() >= deadline) return fail("the peer does not answer");
    if (ready <= 0) continue;
    ssize_t n = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (n == 0) return fail("the peer has hung up");
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail_errno("cannot receive");
    into = into.subspan(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Result<Channel> Channel::open(UniqueFd socket, const storage::Key &key, Side side) {
  set_up_job_socket(socket.get());
  Channel c(std::move(socket), key, side);
  std::span<std::byte> coordinator(c.session_.data(), kGreetingBytes);
  std::span<std::byte> member(c.session_.data() + kGreetingBytes, kGreetingBytes);
  std::span<std::byte> ours = side == Side::Coordinator ? coordinator : member;
  std::span<std::byte> theirs = side == Side::Coordinator ? member : coordinator;
  CKPT_CHECK(begin_greeting(ours));
  CKPT_CHECK(send_all(c.descriptor(), ours));
  CKPT_CHECK(read_all(c.descriptor(), theirs, Clock::now() + kGreetingTimeout));
  if (!is_greeting(theirs)) return fail("the peer is not a tool of this version of ckpt");
  return c;
}

Result<Channel> Channel::resume(UniqueFd socket, const storage::Key &key, ByteView state) {
  Channel c(std::move(socket), key, Side::Member);
  if (state.size() < c.session_.size()) return fail("the greeting of the connection is incomplete");
  std::ranges::copy(state.first(c.session_.size()), c.session_.begin());
  state = state.subspan(c.session_.size());
  c.ahead_.assign(state.begin(), state.end());
  return c;
}

Result<> Channel::begin_greeting(std::span<std::byte> into) {
  std::memcpy(into.data(), kMagic.data(), kMagic.size());
  std::span<std::byte> random = into.subspan(kMagic.size());
  return storage::fill_random(random.data(), random.size());
}

bool Channel::is_greeting(ByteView bytes) { return text(bytes.first(kMagic.size())) == kMagic; }

Result<> Channel::read(std::span<std::byte> into, Clock::time_point deadline) {
  size_t n = std::min(into.size(), ahead_.size());
  std::copy_n(ahead_.begin(), n, into.begin());
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<ptrdiff_t>(n));
  return read_all(descriptor(), into.subspan(n), deadline);
}

Bytes Channel::context(Side sender, u64 number) const {
  return Writer().raw(session_.data(), session_.size()).put(sender).put(number).take();
}

Result<> Channel::send(u16 type, ByteView body) {
  Writer plain;
  plain.put(type).raw(body.data(), body.size());
  Bytes frame(sizeof(u32) + plain.size() + storage::kSealBytes);
  auto sealed = std::span(frame).subspan(sizeof(u32));
  if (sealed.size() > kMaxFrame) return fail("a message of {} bytes is too long", sealed.size());
  auto size = static_cast<u32>(sealed.size());
  std::memcpy(frame.data(), &size, sizeof size);
  key_.seal(context(side_, sent_++), plain.bytes(), sealed);
  test_point_before_sending(type, "job-");
  CKPT_CHECK(send_all(descriptor(), frame));
  test_point_after_sending(type, "job-");
  return {};
}

Result<Channel::Frame> Channel::receive(Clock::time_point deadline) {
  u32 size = 0;
  CKPT_CHECK(read(std::as_writable_bytes(std::span(&size, 1)), deadline));
  if (size < storage::kSealBytes + sizeof(u16) ||
      size > (received_ == 0 ? kMaxFirstFrame : kMaxFrame))
    return fail("the peer has sent a message of {} bytes, which is not a valid size", size);
  Bytes sealed(size), plain(size - storage::kSealBytes);
  CKPT_CHECK(read(sealed, deadline));
  Side peer = side_ == Side::Coordinator ? Side::Member : Side::Coordinator;
  if (!key_.open(context(peer, received_++), sealed, plain))
    return fail("the peer does not have the job's key");
  Frame f;
  std::memcpy(&f.type, plain.data(), sizeof f.type);
  f.body.assign(plain.begin() + sizeof f.type, plain.end());
  test_point_after_receiving(f.type, "job-");
  return f;
}

void Channel::shut_down() const { ::shutdown(descriptor(), SHUT_RDWR); }

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/frame_link.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/base/test_points.h"
#include "tools/migrate/messages.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr size_t kHeaderBytes = 8;
constexpr auto kTick = 100ms;
constexpr auto kBeat = 1s;

// A full pipe must not keep this process from noticing that it was cancelled.
void never_block(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

Failure hung_up() {
  return fail_with_hint("the connection to the other machine has ended",
                        "see what its ckpt-migrate or ssh has said above");
}

}  // namespace

FrameLink::FrameLink(UniqueFd in, UniqueFd out, Check check)
    : in_(std::move(in)), out_(std::move(out)), check_(std::move(check)) {
  never_block(in_.get());
  never_block(out_.get());
}

void FrameLink::close() {
  in_.reset();
  out_.reset();
}

Result<> FrameLink::wait(int fd, short event, Clock::time_point since) {
  CKPT_CHECK(check_());
  if (Clock::now() - since > patience_)
    return fail_with_hint(
        fmt::format("the other machine has not answered for {} s", patience_.count()),
        "check the network, or give more time with --link-timeout");
  pollfd p{fd, event, 0};
  (void)::poll(&p, 1, static_cast<int>(kTick.count()));
  return {};
}

// The other side reads no more. It may have said why, while this one was sending.
Failure FrameLink::lost() {
  for (;;)
    if (Result<Frame> frame = receive(); !frame) return Failure(std::move(frame).error());
}

Result<> FrameLink::write(ByteView data) {
  for (auto since = Clock::now(); !data.empty();) {
    ssize_t n = ::write(out_.get(), data.data(), data.size());
    if (n > 0) {
      data = data.subspan(static_cast<size_t>(n));
      sent_ += static_cast<u64>(n);
      since = Clock::now();
    } else if (n < 0 && errno == EPIPE) {
      return lost();
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
      return fail_errno("cannot write to the other machine");
    } else {
      CKPT_CHECK(wait(out_.get(), POLLOUT, since));
    }
  }
  return {};
}

Result<> FrameLink::read(std::span<std::byte> data) {
  for (auto since = Clock::now(); !data.empty();) {
    ssize_t n = ::read(in_.get(), data.data(), data.size());
    if (n == 0) return hung_up();
    if (n > 0) {
      data = data.subspan(static_cast<size_t>(n));
      since = Clock::now();
    } else if (errno == EAGAIN || errno == EINTR) {
      CKPT_CHECK(wait(in_.get(), POLLIN, since));
    } else {
      return fail_errno("cannot read from the other machine");
    }
  }
  return {};
}

Result<> FrameLink::send(Kind kind, ByteView head, ByteView rest) {
  if (!out_) return hung_up();
  size_t size = head.size() + rest.size();
  if (size > kMaxFrameBytes)
    return fail("a message of {} bytes is too long; the limit is {}", size, kMaxFrameBytes);
  auto type = static_cast<u16>(kind);
  test_point_before_sending(type, "migrate-");
  Writer w;
  w.put(static_cast<u32>(size)).put(type).put(u16{0}).raw(head.data(), head.size());
  auto begun = Clock::now();
  CKPT_CHECK(write(w.bytes()));
  CKPT_CHECK(write(rest));
  last_sent_ = Clock::now();
  sending_ += seconds_since(begun);
  test_point_after_sending(type, "migrate-");
  return {};
}

Result<> FrameLink::beat() {
  CKPT_CHECK(check_());
  return Clock::now() - last_sent_ < kBeat ? Result<>() : send(Kind::Working);
}

// No memory is taken for a body that is too long.
Result<Frame> FrameLink::receive() {
  for (;;) {
    if (!in_) return hung_up();
    std::byte header[kHeaderBytes];
    CKPT_CHECK(read(header));
    Reader r{ByteView(header)};
    u32 size = r.get<u32>();
    auto kind = r.get<Kind>();
    if (size > kMaxFrameBytes || r.get<u16>() != 0)
      return fail_with_hint(
          "the other side does not speak the protocol of ckpt-migrate",
          "a login script there must print nothing in a session without terminal");
    Frame frame{kind, Bytes(size)};
    CKPT_CHECK(read(frame.body));
    if (kind == Kind::Working) continue;
    test_point_after_receiving(static_cast<u16>(kind), "migrate-");
    if (kind != Kind::Failed) return frame;
    return Failure(parse_failure(frame.body).in("on the other machine"));
  }
}

Result<Bytes> FrameLink::receive(Kind kind) {
  CKPT_TRY(Frame frame, receive());
  if (frame.kind == kind) return std::move(frame.body);
  return fail("the other side has sent message {} instead of {}", static_cast<u16>(frame.kind),
              static_cast<u16>(kind));
}

}  // namespace ckpt::tools

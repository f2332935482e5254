// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/ring_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/futex.h"
#include "remote/transport/frames.h"
#include "ring/command_ring.h"

namespace ckpt::remote {
namespace {

using namespace ocl;

constexpr std::chrono::milliseconds kLivenessInterval{200};
// Another thread notices that the proxy has ended, so this one may sleep.
constexpr std::chrono::milliseconds kLongSleep{60'000};
constexpr std::chrono::microseconds kSpinTime{20};

bool hung_up(int socket) {
  pollfd p{socket, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Result<RingClient> RingClient::greet(UniqueFd socket, Bytes &platforms) {
  CKPT_TRY(std::optional<Message> m, receive_message(socket.get(), kMaxBody));
  if (!m) return fail("the OpenCL proxy ended before its greeting");
  Reader r = m->reader();
  u32 version = r.get<u32>();
  r.get<u64>();  // the token
  if (m->type != kGreeting || m->fds.size() != 1 || version != kWireVersion ||
      r.left() < sizeof(u32))
    return fail_with_hint("the OpenCL proxy speaks another version of the ring",
                          "the installation of ckpt is incomplete; install it again");
  ByteView rest = r.raw(r.left() - sizeof(u32));  // without the proxy's PID, which is of this node
  platforms.assign(rest.begin(), rest.end());
  CKPT_TRY(Mapping memory, Mapping::map(m->fds[0].get(), kRingBytes));
  return RingClient(std::move(socket), std::move(memory));
}

Result<> RingClient::wait_for_room(size_t bytes) {
  Header &h = header();
  auto room = [&] { return has_room(memory_.data(), bytes); };
  if (room()) return {};
  h.client_wants_room.fetch_add(1);
  while (!room()) {
    u32 seen = h.client_bell.load(std::memory_order_seq_cst);
    if (!room()) futex_wait(h.client_bell, seen, kLivenessInterval);
    if (!room() && hung_up(socket_.get())) return fail("the OpenCL proxy has ended");
  }
  h.client_wants_room.fetch_sub(1);
  return {};
}

Result<> RingClient::send(CommandHeader c, ByteView payload) {
  bool in_ring = payload.size() <= kMaxInRing;
  c.bytes = static_cast<u32>(payload.size());
  c.flags = static_cast<u16>((c.flags & kSync) | (in_ring ? 0 : kOnSocket));
  CKPT_CHECK(wait_for_room(sizeof c + (in_ring ? padded(payload.size()) : 0)));
  push(memory_.data(), c, in_ring ? payload : ByteView{});
  ring(header().proxy_bell, header().proxy_waits);
  return in_ring ? Result<>{} : send_message(socket_.get(), kPayload, payload);
}

Result<> RingClient::send_fd(u16 type, int fd) {
  return send_message(socket_.get(), type, {}, std::span(&fd, 1));
}

Result<RingClient::Reply> RingClient::round_trip(Op op, ByteView payload) {
  CKPT_CHECK(send({0, static_cast<u16>(op), kSync, 0}, payload));
  Header &h = header();
  for (;;) {
    u32 seen = h.client_bell.load(std::memory_order_seq_cst);
    if (reply_ready()) return take_reply();
    h.client_waits.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(h.client_bell, seen, kLivenessInterval);
    h.client_waits.fetch_sub(1, std::memory_order_seq_cst);
    if (!reply_ready() && hung_up(socket_.get())) return fail("the OpenCL proxy has ended");
  }
}

bool RingClient::reply_ready() { return header().reply_ready.load(std::memory_order_acquire) != 0; }

Result<RingClient::Reply> RingClient::take_reply() {
  Header &h = header();
  Reply reply{h.reply_status.load(), {}};
  if (h.reply_on_socket.load() != 0) {
    CKPT_TRY(std::optional<Message> m, receive_message(socket_.get(), kMaxBody));
    if (!m) return fail("the OpenCL proxy has ended");
    reply.bytes = std::move(m->body);
  } else {
    const std::byte *p = memory_.data() + kReplyAt;
    reply.bytes.assign(p, p + std::min<size_t>(h.reply_bytes.load(), kReplyBytes));
  }
  h.reply_ready.store(0, std::memory_order_relaxed);
  return reply;
}

const Completion *RingClient::next_completion() {
  Header &h = header();
  u64 tail = h.completion_tail.load(std::memory_order_relaxed);
  if (tail == h.completion_head.load(std::memory_order_acquire)) return nullptr;
  std::memcpy(&completion_,
              memory_.data() + kCompletionsAt + tail % kCompletions * sizeof completion_,
              sizeof completion_);
  return &completion_;
}

void RingClient::pop_completion() {
  Header &h = header();
  h.completion_tail.fetch_add(1, std::memory_order_seq_cst);
  // The completion ring has room again.
  if (h.proxy_waits.load(std::memory_order_seq_cst) != 0) ring(h.proxy_bell, h.proxy_waits);
}

bool RingClient::anything() {
  Header &h = header();
  return h.reply_ready.load(std::memory_order_acquire) != 0 ||
         h.completion_head.load(std::memory_order_acquire) !=
             h.completion_tail.load(std::memory_order_relaxed);
}

void RingClient::wait() {
  Header &h = header();
  if (spin_until([this] { return anything(); }, kSpinTime)) return;
  u32 seen = h.client_bell.load(std::memory_order_seq_cst);
  h.client_waits.fetch_add(1, std::memory_order_seq_cst);
  if (!anything()) futex_wait(h.client_bell, seen, kLongSleep);
  h.client_waits.fetch_sub(1, std::memory_order_seq_cst);
}

std::byte *RingClient::staging(u64 offset, u64 bytes) {
  if (offset > kStagingBytes || bytes > kStagingBytes - offset) return nullptr;
  return memory_.data() + kStagingAt + offset;
}

}  // namespace ckpt::remote

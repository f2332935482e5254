// SPDX-License-Identifier: Apache-2.0
#include "ring/channel.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

#include "common/base/futex.h"
#include "common/base/log.h"
#include "ring/output_ring.h"

namespace ckpt::ocl {
namespace {

constexpr std::chrono::milliseconds kLivenessInterval{200};
// How long the serving thread spins before it sleeps. A client that sends its next command soon
// then saves the futex call and, more important, the time that a sleeping thread needs to wake
// (tens of microseconds). While it spins, the thread yields the core to others.
constexpr std::chrono::microseconds kSpinTime{60};

}  // namespace

Result<Channel> Channel::make() {
  Channel c;
  CKPT_TRY(c.fd_, make_memfd("ckpt-ring", kRingBytes));
  CKPT_TRY(c.memory_, Mapping::map(c.fd_.get(), kRingBytes));
  Header *h = new (c.memory_.data()) Header{};
  h->magic = kWireMagic;
  h->version = kWireVersion;
  return c;
}

bool Channel::hung_up() const {
  pollfd p{socket_.get(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Channel::client_is_gone() const {
  pollfd p{client_.load(), POLLRDHUP, 0};
  return p.fd >= 0 && ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP)) != 0;
}

// A driver, or a connection to another node, may block the serving thread for long. When the
// application has ended, this process should end nevertheless, as a driver in the application would
// have.
void Channel::wait_for_end_of_client() const {
  using namespace std::chrono_literals;
  for (int gone = 0; gone < 4; gone = client_is_gone() ? gone + 1 : 0)
    std::this_thread::sleep_for(500ms);
}

bool Channel::ready() {
  Header &h = header();
  return h.command_head.load(std::memory_order_seq_cst) !=
         h.command_tail.load(std::memory_order_relaxed);
}

// Returns false if the client is gone and the ring is empty.
bool Channel::wait_for_command() {
  auto has_command = [this] { return ready(); };
  if (spin_until(has_command, kSpinTime)) return true;
  Header &h = header();
  for (;;) {
    u32 seen = h.proxy_bell.load(std::memory_order_seq_cst);
    h.proxy_waits.fetch_add(1, std::memory_order_seq_cst);
    if (!has_command()) futex_wait(h.proxy_bell, seen, kLivenessInterval);
    h.proxy_waits.fetch_sub(1, std::memory_order_seq_cst);
    if (has_command()) return true;
    if (hung_up()) return has_command();
  }
}

std::optional<Channel::Incoming> Channel::next() {
  if (!wait_for_command()) return {};
  Header &h = header();
  u64 tail = h.command_tail.load(std::memory_order_relaxed);
  u64 head = h.command_head.load(std::memory_order_acquire);
  size_t at = tail % kCommandRingBytes;
  size_t to_end = kCommandRingBytes - at;
  CommandHeader c{kWrap, 0, 0, 0};
  std::memcpy(&c, memory_.data() + kCommandsAt + at, std::min(sizeof c, to_end));
  if (c.bytes == kWrap || to_end < sizeof c) {
    if (head - tail < to_end) return {};
    h.command_tail.store(tail + to_end, std::memory_order_release);
    return next();
  }
  bool in_ring = !(c.flags & kOnSocket);
  size_t length = sizeof c + (in_ring ? padded(c.bytes) : 0);
  if (length > head - tail || length > to_end || head - tail > kCommandRingBytes) {
    log::error("the application's command ring is damaged; the proxy ends");
    return {};
  }
  next_tail_ = tail + length;
  if (in_ring) return Incoming{c, {memory_.data() + kCommandsAt + at + sizeof c, c.bytes}};
  auto m = receive_message(socket_.get());
  if (!m || !*m || (*m)->type != kPayload) return {};
  from_socket_ = std::move((*m)->body);
  if (!(*m)->fds.empty()) fd_from_socket_ = std::move((*m)->fds.front());
  return Incoming{c, from_socket_, fd_from_socket_.get()};
}

void Channel::done() {
  Header &h = header();
  from_socket_.clear();
  fd_from_socket_.reset();
  h.command_tail.store(next_tail_, std::memory_order_seq_cst);
  if (h.client_wants_room.load(std::memory_order_seq_cst) != 0) {
    h.client_bell.fetch_add(1);
    futex_wake_all(h.client_bell);
  }
}

Result<> Channel::reply(i32 status, ByteView bytes) {
  Header &h = header();
  bool on_socket = bytes.size() > kReplyBytes;
  if (!on_socket && !bytes.empty())
    std::memcpy(memory_.data() + kReplyAt, bytes.data(), bytes.size());
  h.reply_status.store(status);
  h.reply_bytes.store(static_cast<u32>(bytes.size()));
  h.reply_on_socket.store(on_socket);
  h.reply_ready.store(1, std::memory_order_seq_cst);
  ring(h.client_bell, h.client_waits);
  // After the bell, because the client reads the socket only when the reply is ready.
  return on_socket ? send_message(socket_.get(), kPayload, bytes) : Result<>{};
}

bool Channel::wait_for_client(const std::function<bool()> &room) {
  Header &h = header();
  while (!room()) {
    ring(h.client_bell, h.client_waits);
    u32 seen = h.proxy_bell.load(std::memory_order_seq_cst);
    h.proxy_waits.fetch_add(1, std::memory_order_seq_cst);
    if (!room()) futex_wait(h.proxy_bell, seen, kLivenessInterval);
    h.proxy_waits.fetch_sub(1, std::memory_order_seq_cst);
    if (hung_up()) return false;
  }
  return true;
}

bool Channel::output(OutputWay way, ByteView bytes) {
  Header &h = header();
  auto taken = [&] { return h.takes_output.load(std::memory_order_seq_cst) != 0; };
  OutputHeader record{static_cast<u16>(bytes.size()), way};
  size_t needed = sizeof record + padded_output(bytes.size());
  u64 head = h.output_head.load(std::memory_order_relaxed);
  auto room = [&] {
    return !taken() ||
           head - h.output_tail.load(std::memory_order_seq_cst) + needed <= kOutputBytes;
  };
  if (!wait_for_client(room) || !taken()) return false;
  put_output(memory_.data(), head, &record, sizeof record);
  put_output(memory_.data(), head + sizeof record, bytes.data(), bytes.size());
  h.output_head.store(head + needed, std::memory_order_seq_cst);
  ring(h.client_bell, h.client_waits);
  return true;
}

void Channel::complete(const Completion &c) {
  std::lock_guard lock(completions_);
  Header &h = header();
  u64 head = h.completion_head.load(std::memory_order_relaxed);
  bool room = wait_for_client(
      [&] { return head - h.completion_tail.load(std::memory_order_seq_cst) < kCompletions; });
  if (!room) return;
  std::memcpy(memory_.data() + kCompletionsAt + head % kCompletions * sizeof c, &c, sizeof c);
  h.completion_head.store(head + 1, std::memory_order_seq_cst);
  ring(h.client_bell, h.client_waits);
}

std::byte *Channel::staging(u64 offset, u64 bytes) {
  if (offset > kStagingBytes || bytes > kStagingBytes - offset) return nullptr;
  return memory_.data() + kStagingAt + offset;
}

}  // namespace ckpt::ocl

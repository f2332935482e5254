// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link.h"

#include <poll.h>

#include <thread>

#include "agent/protocol.h"
#include "common/base/futex.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/client/notify.h"
#include "libckpt-ocl/client/transfer.h"

namespace ckpt::ocl {
namespace {

// How often a sleeper looks whether the proxy still lives.
constexpr std::chrono::milliseconds kLookAround{200};
// Before sleeping: about what the futex calls would cost.
constexpr std::chrono::microseconds kAwake{5};

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

Result<Greeting> read_greeting(Reader r) {
  Greeting g;
  u32 platforms = r.get<u32>();
  for (u32 i = 0; i < platforms && r.ok(); i++) {
    Greeting::Plat &p = g.platforms.emplace_back();
    p.name = r.str();
    u32 devices = r.get<u32>();
    for (u32 k = 0; k < devices && r.ok(); k++) {
      u64 type = r.get<u64>();
      p.devices.push_back({type, std::string(r.str())});
    }
  }
  if (!r.ok()) return fail("the proxy's greeting is malformed");
  if (r.done()) return g;
  g.pid = r.get<u32>();
  if (!r.ok()) return fail("the proxy's greeting is malformed");
  return g;
}

}  // namespace

Link &link() {
  static Link *l = new Link;
  return *l;
}

void forget_as_last(const Event &e) {
  Ref<Event> dropped_outside_the_lock;
  if (!e.queue) return;
  std::lock_guard lock(e.queue->mutex);
  if (e.queue->last.get() == &e) dropped_outside_the_lock = std::move(e.queue->last);
}

Result<Greeting> Link::open(const std::string &session, const std::string &device) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  Writer w;
  w.put(protocol::kVersion).str("ocl");
  if (!device.empty()) w.str(device);
  auto wanted = device.empty() ? protocol::Type::ProxyWanted : protocol::Type::ProxyFor;
  int streams[] = {STDOUT_FILENO, STDERR_FILENO};
  UniqueFd null;
  for (int &fd : streams)
    if (::fcntl(fd, F_GETFD) < 0) {  // a program may have closed them
      if (!null) null.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
      fd = null.get();
    }
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(wanted), w.bytes(), streams));
  return greet(std::move(socket));
}

Result<> Link::reopen(const std::string &session) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  Writer w;
  w.put(protocol::kVersion).put(token_);
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(protocol::Type::ProxyAgain), w.bytes()));
  CKPT_TRY(Greeting unused, greet(std::move(socket)));
  (void)unused;
  return {};
}

Result<> Link::abandon(const std::string &session) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  Writer w;
  w.put(protocol::kVersion).put(token_);
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(protocol::Type::ProxyDrop), w.bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(socket.get()));
  if (m && m->type == static_cast<u16>(protocol::Type::Ok)) return {};
  return fail("the session keeper did not end the driver's process");
}

Result<Greeting> Link::greet(UniqueFd socket) {
  CKPT_TRY(std::optional<Message> m, receive_message(socket.get()));
  if (!m) return fail("the driver proxy ended before it greeted");
  Reader r = m->reader();
  if (m->type == static_cast<u16>(protocol::Type::Failed))
    return fail("no driver proxy: {}", r.str());
  u32 version = r.get<u32>();
  if (m->type != kGreeting || m->fds.size() != 1 || version != kWireVersion)
    return fail("the driver proxy speaks version {} of the wire protocol, this program {}", version,
                kWireVersion);
  token_ = r.get<u64>();
  CKPT_TRY(Greeting g, read_greeting(r));
  CKPT_TRY(memory_, Mapping::map(m->fds[0].get(), kRingBytes));
  if (header().magic != kWireMagic || header().version != kWireVersion) {
    memory_.reset();
    return fail("the driver proxy's ring is of another version");
  }
  socket_ = std::move(socket);
  usable_ = true;
  return g;
}

Result<> Link::park() {
  if (!usable()) return {};
  drain();
  flush_releases();
  if (ask(Op::Park, 0, {}) != CL_SUCCESS) return fail("the driver proxy did not park");
  close();
  return {};
}

void Link::close() {
  usable_ = false;
  memory_.reset();
  socket_.reset();
}

void Link::forget() {
  usable_ = false;
  memory_.forget();
  socket_.reset();
}

// usable() is looked at before any lock: in a fork's child the lock's holder may not exist.
cl_int Link::send(u16 op, u64 made, ByteView payload, u16 flags) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  std::lock_guard lock(send_mutex_);
  return send_locked(op, made, payload, flags);
}

cl_int Link::send_locked(u16 op, u64 made, ByteView payload, u16 flags) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  bool in_ring = payload.size() <= kMaxInRing;
  if (!in_ring) flags |= kOnSocket;
  CommandHeader h{static_cast<u32>(payload.size()), op, flags, made};
  if (!wait_for_room(sizeof h + (in_ring ? padded(payload.size()) : 0)))
    return CL_DEVICE_NOT_AVAILABLE;
  push(h, in_ring ? payload : ByteView{});
  ring(header().proxy_bell, header().proxy_waits);
  if (!in_ring && !send_message(socket_.get(), kPayload, payload)) return CL_DEVICE_NOT_AVAILABLE;
  return CL_SUCCESS;
}

// Commands never straddle the end of the ring: the last one says where it wraps.
bool Link::wait_for_room(size_t bytes) {
  Header &h = header();
  u64 head = h.command_head.load(std::memory_order_relaxed);
  size_t to_end = kCommandRingBytes - head % kCommandRingBytes;
  size_t need = to_end < bytes ? to_end + bytes : bytes;
  auto room = [&] {
    return kCommandRingBytes - (head - h.command_tail.load(std::memory_order_acquire)) >= need;
  };
  if (!room()) {
    h.client_wants_room.fetch_add(1);
    bool alive = wait_until(room, false);
    if (!alive) return false;
    h.client_wants_room.fetch_sub(1);
  }
  if (to_end < bytes) {
    CommandHeader wrap{kWrap, 0, 0, 0};
    std::memcpy(memory_.data() + kCommandsAt + head % kCommandRingBytes, &wrap,
                std::min(sizeof wrap, to_end));
    h.command_head.store(head + to_end, std::memory_order_release);
  }
  return true;
}

void Link::push(const CommandHeader &c, ByteView payload) {
  Header &h = header();
  u64 head = h.command_head.load(std::memory_order_relaxed);
  std::byte *at = memory_.data() + kCommandsAt + head % kCommandRingBytes;
  std::memcpy(at, &c, sizeof c);
  if (!payload.empty()) std::memcpy(at + sizeof c, payload.data(), payload.size());
  h.command_head.store(head + sizeof c + padded(payload.size()), std::memory_order_seq_cst);
}

cl_int Link::ask(u16 op, u64 made, ByteView payload, Bytes *reply) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  std::lock_guard lock(ask_mutex_);
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  Header &h = header();
  h.reply_ready.store(0, std::memory_order_relaxed);
  if (cl_int r = send(op, made, payload, kSync); r != CL_SUCCESS) return r;
  if (!wait_until([&] { return h.reply_ready.load(std::memory_order_acquire) != 0; }, false))
    return CL_DEVICE_NOT_AVAILABLE;
  u32 bytes = h.reply_bytes.load();
  if (h.reply_on_socket.load() != 0) {
    auto m = receive_message(socket_.get());
    if (!m || !*m) return CL_DEVICE_NOT_AVAILABLE;
    if (reply) *reply = std::move((*m)->body);
  } else if (reply) {
    const std::byte *p = memory_.data() + kReplyAt;
    reply->assign(p, p + std::min<size_t>(bytes, kReplyBytes));
  }
  return h.reply_status.load();
}

Result<> Link::send_fd(u16 type, int fd) {
  std::lock_guard lock(send_mutex_);
  return send_message(socket_.get(), type, {}, std::span(&fd, 1));
}

// Never sends by itself: it may run while a sender is taking in completions.
void Link::release_later(const Release &r) {
  std::lock_guard lock(release_mutex_);
  releases_.push_back(r);
  any_releases_.store(true, std::memory_order_release);
}

void Link::flush_releases() {
  if (!any_releases_.load(std::memory_order_acquire)) return;
  std::vector<Release> now;
  {
    std::lock_guard lock(release_mutex_);
    now.swap(releases_);
    any_releases_.store(false, std::memory_order_relaxed);
  }
  for (const Release &r : now) {
    if (r.settle) settle_nameless(r.number);
    Writer w;
    w.put(r.kind).put(r.number);
    send(Op::Release, 0, w.bytes());
  }
}

// Nobody waits for the last commands of a queue that is gone, but a checkpoint must.
void Link::settle_nameless(u64 queue) {
  auto *e = new Event;
  Ref<Event> mark(e);
  e->drop();
  expect(e);
  Writer w;
  w.put(queue);
  if (send(Op::Settle, e->number, w.bytes()) != CL_SUCCESS) unexpect(e);
}

void Link::expect(Event *event) {
  std::lock_guard lock(drain_mutex_);
  pending_.emplace(event->number, Ref<Event>(event));
}

void Link::unexpect(Event *event) {
  Ref<Event> dropped_outside_the_lock;
  std::lock_guard lock(drain_mutex_);
  auto it = pending_.find(event->number);
  if (it == pending_.end()) return;
  dropped_outside_the_lock = std::move(it->second);
  pending_.erase(it);
}

void Link::drain() {
  if (!usable()) return;
  Header &h = header();
  if (h.completion_head.load(std::memory_order_acquire) ==
      h.completion_tail.load(std::memory_order_relaxed))
    return;
  std::vector<Ref<Event>> over;
  take_in(over);
  for (const Ref<Event> &e : over) {
    forget_as_last(*e);
    is_over(*e);
  }
}

void Link::take_in(std::vector<Ref<Event>> &over) {
  Header &h = header();
  std::lock_guard lock(drain_mutex_);
  u64 tail = h.completion_tail.load(std::memory_order_relaxed);
  while (tail != h.completion_head.load(std::memory_order_acquire)) {
    Completion c;
    std::memcpy(&c, memory_.data() + kCompletionsAt + tail % kCompletions * sizeof c, sizeof c);
    h.completion_tail.store(++tail, std::memory_order_release);
    auto it = pending_.find(c.event);
    if (it == pending_.end()) continue;
    finish(*it->second, c);
    over.push_back(std::move(it->second));
    pending_.erase(it);
  }
  if (!over.empty()) ring(h.proxy_bell, h.proxy_waits);  // there is room for completions again
}

void Link::finish(Event &e, const Completion &c) {
  if (c.status == CL_COMPLETE) deliver(e);
  if (e.staging_bytes) space_.release(e.staging, e.staging_bytes);
  e.staging_bytes = 0;
  stamp(e, c);
  e.status.store(c.status, std::memory_order_release);
}

bool Link::idle() {
  drain();
  std::lock_guard lock(drain_mutex_);
  return pending_.empty();
}

bool Link::wait_until(const std::function<bool()> &done, bool may_pause) {
  for (;;) {
    if (!usable()) return done();
    u32 seen = header().client_bell.load(std::memory_order_seq_cst);
    drain();
    if (done()) return true;
    if (may_pause && gate().closing()) {
      gate().pause();
      continue;
    }
    auto rung = [&] { return header().client_bell.load(std::memory_order_acquire) != seen; };
    if (!spin_until(rung, kAwake) && !sleep_until_bell(seen)) {
      fail_everything();
      return done();
    }
  }
}

// False: the proxy is gone.
bool Link::sleep_until_bell(u32 seen) {
  Header &h = header();
  h.client_waits.fetch_add(1, std::memory_order_seq_cst);
  futex_wait(h.client_bell, seen, kLookAround);
  h.client_waits.fetch_sub(1, std::memory_order_seq_cst);
  return h.client_bell.load() != seen || !hung_up();
}

bool Link::hung_up() {
  pollfd p{socket_.get(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Link::fail_everything() {
  if (!usable_.exchange(false)) return;
  log::error("the OpenCL driver's process is gone; every OpenCL call fails from now on");
  std::unordered_map<u64, Ref<Event>> lost;
  {
    std::lock_guard lock(drain_mutex_);
    lost.swap(pending_);
  }
  for (auto &[number, event] : lost) {
    event->status = CL_DEVICE_NOT_AVAILABLE;
    forget_as_last(*event);
    is_over(*event);
  }
}

void Link::wake_waiters() {
  if (!usable()) return;
  header().client_bell.fetch_add(1);
  futex_wake_all(header().client_bell);
}

std::optional<u64> Link::allocate_staging(u64 bytes) {
  std::optional<u64> at;
  if (!wait_until([&] { return (at = space_.allocate(bytes)).has_value(); }, true)) return {};
  return usable() ? at : std::nullopt;
}

}  // namespace ckpt::ocl

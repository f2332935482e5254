// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/link.h"

#include <poll.h>
#include <sys/socket.h>

#include "common/base/futex.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/client/command/callbacks.h"
#include "libckpt-ocl/client/command/time_stamps.h"
#include "libckpt-ocl/client/transfer/edges.h"
#include "libckpt-ocl/client/transfer/transfer.h"
#include "ring/command_ring.h"

namespace ckpt::ocl {
namespace {

// How often a sleeping thread checks that the proxy is still alive.
constexpr std::chrono::milliseconds kLivenessInterval{200};
// How long a thread spins before it sleeps: about what the two futex calls would cost.
constexpr std::chrono::microseconds kSpinTime{5};

}  // namespace

Link &link() {
  static Link *l = new Link;
  return *l;
}

// usable() is tested before any lock is taken: in the child of a fork, the thread that holds the
// lock may not exist.
cl_int Link::send(u16 op, u64 made, ByteView payload, u16 flags) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  std::lock_guard lock(send_mutex_);
  return send_locked(op, made, payload, flags);
}

// Sends a command one way, with a descriptor.
cl_int Link::send_with(Op op, int fd) {
  std::lock_guard lock(send_mutex_);
  return send_locked(static_cast<u16>(op), 0, {}, 0, fd);
}

cl_int Link::send_locked(u16 op, u64 made, ByteView payload, u16 flags, int fd) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  bool in_ring = payload.size() <= kMaxInRing && fd < 0;
  if (!in_ring) flags |= kOnSocket;
  CommandHeader h{static_cast<u32>(payload.size()), op, flags, made};
  traffic.count_bytes(sizeof h + payload.size());
  if (!wait_for_room(sizeof h + (in_ring ? padded(payload.size()) : 0)))
    return CL_DEVICE_NOT_AVAILABLE;
  push(memory_.data(), h, in_ring ? payload : ByteView{});
  ring(header().proxy_bell, header().proxy_waits);
  std::span<const int> fds(&fd, fd < 0 ? 0 : 1);
  if (!in_ring && !send_message(socket_.get(), kPayload, payload, fds))
    return CL_DEVICE_NOT_AVAILABLE;
  return CL_SUCCESS;
}

bool Link::wait_for_room(size_t bytes) {
  auto room = [&] { return has_room(memory_.data(), bytes); };
  if (room()) return true;
  header().client_wants_room.fetch_add(1);
  if (!wait_until(room, false)) return false;
  header().client_wants_room.fetch_sub(1);
  return true;
}

cl_int Link::round_trip(u16 op, u64 made, ByteView payload, Bytes *reply) {
  return round_trip_by([&] { return send(op, made, payload, kSync); }, reply);
}

cl_int Link::round_trip(Op op, ByteView payload, int fd) {
  auto send = [&] {
    std::lock_guard lock(send_mutex_);
    return send_locked(static_cast<u16>(op), 0, payload, kSync, fd);
  };
  return round_trip_by(send, nullptr);
}

template <class Send>
cl_int Link::round_trip_by(Send send, Bytes *reply) {
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  std::lock_guard lock(round_trip_mutex_);
  if (!usable()) return CL_DEVICE_NOT_AVAILABLE;
  Header &h = header();
  if (gate().within()) traffic.count_wait();
  const Clock::time_point begun = Clock::now();
  h.reply_ready.store(0, std::memory_order_relaxed);
  if (cl_int r = send(); r != CL_SUCCESS) return r;
  if (!wait_until([&] { return h.reply_ready.load(std::memory_order_acquire) != 0; }, false))
    return CL_DEVICE_NOT_AVAILABLE;
  u32 bytes = h.reply_bytes.load();
  traffic.note_answer(Clock::now() - begun, bytes);
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

Result<UniqueFd> Link::buffer_file(u64 mem) {
  if (cl_int r = round_trip(Op::BufferFile, 0, Writer().put(mem).bytes()); r != CL_SUCCESS)
    return fail("the OpenCL proxy does not return the memory of buffer {}: OpenCL error {}", mem,
                r);
  CKPT_TRY(std::optional<Message> m, receive_message(socket_.get()));
  if (!m || m->type != kBufferFile || m->fds.size() != 1)
    return fail_with_hint(fmt::format("the buffer file of OpenCL buffer {} did not arrive", mem),
                          "the program may have too many open files; raise its limit (ulimit -n)");
  return std::move(m->fds.front());
}

Result<> Link::send_fd(u16 type, int fd) {
  std::lock_guard lock(send_mutex_);
  return send_message(socket_.get(), type, {}, std::span(&fd, 1));
}

// Does not send: it may be called while a sending thread receives completions.
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
    if (r.needs_marker) request_release_marker(r.number);
    Writer w;
    w.put(r.kind).put(r.number);
    send(Op::Release, 0, w.bytes());
  }
}

// The application no longer waits for the last commands of a released queue, but a checkpoint must.
void Link::request_release_marker(u64 queue) {
  auto *e = new Event;
  Ref<Event> marker(e);
  e->drop();
  expect(e);
  Writer w;
  w.put(queue);
  if (send(Op::Marker, e->number, w.bytes()) != CL_SUCCESS) unexpect(e);
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

Ref<Event> Link::pending(u64 number) {
  std::lock_guard lock(drain_mutex_);
  auto it = pending_.find(number);
  return it == pending_.end() ? Ref<Event>() : it->second;
}

void Link::drain() {
  if (!usable()) return;
  Header &h = header();
  if (h.completion_head.load(std::memory_order_acquire) ==
          h.completion_tail.load(std::memory_order_relaxed) &&
      !output_waits())
    return;
  std::vector<Ref<Event>> finished;
  std::vector<Ended> ending;
  receive_completions(finished, ending);
  for (const Ended &e : ending) end_writer(e);
  for (const Ref<Event> &e : finished) notify_finished(*e);
}

// The last reference to a memory object may be dropped here, which makes the program's own memory
// private and calls the program; it learns only then that the command has finished.
void Link::end_writer(const Ended &ended) {
  Event &e = *ended.event;
  e.writes.clear();
  {
    std::lock_guard lock(drain_mutex_);
    e.end(ended.status);
    pending_.erase(e.number);
  }
  notify_finished(e);
  wake_waiters();
}

bool Link::output_waits() {
  Header &h = header();
  return h.output_head.load(std::memory_order_acquire) !=
             h.output_tail.load(std::memory_order_relaxed) ||
         !printed_.empty();
}

// The caller holds drain_mutex_.
void Link::take_output() {
  Header &h = header();
  u64 tail = h.output_tail.load(std::memory_order_relaxed);
  u64 head = h.output_head.load(std::memory_order_acquire);
  if (tail != head) start_taking_output();
  auto keep = [this](OutputWay way, std::string text) { printed_.add(way, std::move(text)); };
  if (!each_output(memory_.data(), tail, head, keep)) {
    ::shutdown(socket_.get(), SHUT_RDWR);  // as for damaged completions
    return;
  }
  h.output_tail.store(head, std::memory_order_seq_cst);
  if (tail != head) ring(h.proxy_bell, h.proxy_waits);
  printed_.write();
}

void Link::receive_completions(std::vector<Ref<Event>> &finished, std::vector<Ended> &ending) {
  Header &h = header();
  std::lock_guard lock(drain_mutex_);
  u64 tail = h.completion_tail.load(std::memory_order_relaxed);
  if (output_waits()) take_output();
  while (tail != h.completion_head.load(std::memory_order_acquire)) {
    if (output_waits()) take_output();  // it comes before the completion
    if (h.completion_head.load(std::memory_order_relaxed) - tail > kCompletions) {
      // More than the ring can hold: it is damaged. Every waiting thread then sees that the proxy
      // is gone.
      ::shutdown(socket_.get(), SHUT_RDWR);
      return;
    }
    Completion c;
    std::memcpy(&c, memory_.data() + kCompletionsAt + tail % kCompletions * sizeof c, sizeof c);
    h.completion_tail.store(++tail, std::memory_order_release);
    auto it = pending_.find(c.event);
    if (it == pending_.end()) continue;
    complete_event(*it->second, c);
    edges_to_program();
    if (!it->second->writes.empty()) {
      ending.push_back({it->second, c.status});
      continue;
    }
    it->second->end(c.status);
    finished.push_back(std::move(it->second));
    pending_.erase(it);
  }
  if (!finished.empty() || !ending.empty())
    ring(h.proxy_bell, h.proxy_waits);  // the completion ring has room again
}

void Link::complete_event(Event &e, const Completion &c) {
  if (c.status == CL_COMPLETE) copy_read_to_host(e);
  if (e.staging_bytes) space_.release(e.staging, e.staging_bytes);
  e.staging_bytes = 0;
  set_time_stamps(e, c);
  e.busy = c.busy;
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
    if (!spin_until(rung, kSpinTime) && !sleep_until_bell(seen)) {
      fail_pending();
      return done();
    }
  }
}

void Link::wait_for_device(const std::function<bool()> &done) {
  if (done()) return;
  drain();
  if (done()) return;
  traffic.count_wait();
  wait_until(done, true);
}

// Returns false if the proxy is gone.
bool Link::sleep_until_bell(u32 seen) {
  Header &h = header();
  h.client_waits.fetch_add(1, std::memory_order_seq_cst);
  futex_wait(h.client_bell, seen, kLivenessInterval);
  h.client_waits.fetch_sub(1, std::memory_order_seq_cst);
  return h.client_bell.load() != seen || !hung_up();
}

bool Link::hung_up() {
  pollfd p{socket_.get(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Link::check_alive() {
  if (usable() && hung_up()) fail_pending();
  return usable();
}

void Link::fail_pending() {
  if (!usable_.exchange(false)) return;
  log::error(
      "the OpenCL proxy has ended; OpenCL calls of this program fail until it has devices "
      "again");
  std::unordered_map<u64, Ref<Event>> lost;
  {
    std::lock_guard lock(drain_mutex_);
    lost.swap(pending_);
  }
  for (auto &[number, event] : lost) {
    event->writes.clear();
    event->end(CL_DEVICE_NOT_AVAILABLE);
    notify_finished(*event);
  }
}

void Link::wake_waiters() {
  if (usable()) ring(header().client_bell, header().client_waits);
}

std::optional<u64> Link::allocate_staging(u64 bytes) {
  std::optional<u64> at;
  if (!wait_until([&] { return (at = space_.allocate(bytes)).has_value(); }, true)) return {};
  return usable() ? at : std::nullopt;
}

}  // namespace ckpt::ocl

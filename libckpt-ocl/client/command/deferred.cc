// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/deferred.h"

#include <chrono>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "libckpt-ocl/client/command/helper_thread.h"
#include "libckpt-ocl/client/entry/api_call.h"

namespace ckpt::ocl {
namespace {

// By estimate 6 MiB of the application's memory, and a second of the device's time with kernels of
// 0.1 ms.
constexpr u32 kMostKept = 8192;

u64 now_ns() { return static_cast<u64>(monotonic_ns()); }

}  // namespace

DeferredCommands &deferred_commands() {
  static DeferredCommands *d = new DeferredCommands;
  return *d;
}

void DeferredCommands::add(Command c, std::function<cl_int(Command &)> send) {
  wait_for_room();
  Queue &q = c.queue();
  if (Event *e = c.event_.get()) {
    if (user_events()) e->status = CL_QUEUED;
    e->deferred = true;
  }
  bool all = c.waits_for_all(), barrier = c.type() == CL_COMMAND_BARRIER;
  {
    std::lock_guard lock(mutex_);
    commands_.fetch_add(1);
    q.deferred.fetch_add(1);
    if (barrier) q.deferred_barriers.fetch_add(1);
    queues_[&q].push_back({std::move(c), std::move(send), all, barrier, now_ns()});
    if (held_back_) return;  // the feeder looks again when there is room
  }
  release();  // the user event may have been set since can_send_now() looked at it
}

void DeferredCommands::wait_for_room() {
  auto may_add = [this](u32 most) {
    return commands_.load() < most || user_events() || !link().usable();
  };
  if (!may_add(kMostKept)) link().wait_until([&] { return may_add(kMostKept / 2); }, true);
}

// The first entry that depends on no deferred event and on no earlier entry of its queue.
DeferredCommands::Entries::iterator DeferredCommands::ready_in(const Queue &q, Entries &entries) {
  if (q.in_pieces.load()) return entries.end();
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    bool behind = it->waits_for_all && it != entries.begin();
    for (const Ref<Event> &e : it->command.kept_events_) behind = behind || e->deferred.load();
    if (!behind) return it;
    if (q.in_order() || it->barrier) break;
  }
  return entries.end();
}

// Takes an entry that can be sent off its list.
DeferredCommands::Entries DeferredCommands::take_ready() {
  Entries one;
  held_back_ = false;
  for (auto at = queues_.begin(); at != queues_.end(); ++at) {
    auto &[queue, entries] = *at;
    auto it = ready_in(*queue, entries);
    bool ready = it != entries.end(), room = ready && it->has_room();
    queue->held_back = ready && !room;
    held_back_ = held_back_ || (ready && !room);
    if (!room) continue;
    one.splice(one.begin(), entries, it);
    if (entries.empty()) queues_.erase(at);
    break;
  }
  return one;
}

bool DeferredCommands::any_ready() {
  std::lock_guard lock(mutex_);
  if (releasing_) return false;
  for (auto &[queue, entries] : queues_)
    if (auto it = ready_in(*queue, entries); it != entries.end() && it->has_room()) return true;
  return !held_back_;
}

void DeferredCommands::release() {
  std::unique_lock lock(mutex_);
  again_ = true;
  if (releasing_) return;
  releasing_ = true;
  bool stop = false;
  while (std::exchange(again_, false)) {
    for (Entries one = take_ready(); !one.empty(); one = take_ready()) {
      // The queue counts it until it is sent, so that no later command overtakes it.
      lock.unlock();
      bool sent = run(one.front());
      if (sent) one.clear();
      stop = gate().closing() && can_feed();
      lock.lock();
      if (!sent) put_back(one);
      if (stop) break;  // a checkpoint waits for this thread; the feeder goes on after it
    }
    // Also if the gate was opened again meanwhile: then nothing else would send the rest.
    held_back_ = held_back_ || ((stop || gate().closing()) && !queues_.empty());
  }
  releasing_ = false;
  if (!held_back_) return;
  fed_.notify_all();
  link().wake_waiters();  // the feeder may have seen releasing_
}

bool DeferredCommands::begin_pieces(Queue &q) {
  if (!q.in_order()) return false;
  std::lock_guard lock(mutex_);
  if (q.deferred.load() > 0) return false;
  commands_.fetch_add(1);
  q.deferred.fetch_add(1);
  q.in_pieces = true;
  return true;
}

void DeferredCommands::end_pieces(Queue &q) {
  {
    std::lock_guard lock(mutex_);
    q.in_pieces = false;
    q.deferred.fetch_sub(1);
    commands_.fetch_sub(1);
  }
  link().wake_waiters();  // clFinish waits for it
  release();
}

// An entry of which a further part is to be sent is again the first of its queue.
void DeferredCommands::put_back(Entries &one) {
  Entries &entries = queues_[&one.front().command.queue()];
  entries.splice(entries.begin(), one);
}

// Returns whether the whole command was sent.
bool DeferredCommands::run(Entry &entry) {
  Command &c = entry.command;
  Ref<Event> event = c.event_;
  Ref<Queue> queue(&c.queue());
  bool failed = false;
  c.waits_.clear();
  for (const Ref<Event> &e : c.kept_events_) {
    if (!e->finished()) c.waits_.push_back(handle<cl_event>(e.get()));
    failed = failed || e->status.load() < 0;
  }
  cl_int r = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  if (event && !c.begun_) event->deferred_ns = now_ns() - entry.since;
  c.goes_on_ = false;
  if (!failed) {
    if (event) event->status = CL_SUBMITTED;
    r = entry.send(c);
  }
  if (r == CL_SUCCESS && c.goes_on_) return false;
  if (r != CL_SUCCESS && event && !event->finished()) finish_event(*event, r);
  if (r != CL_SUCCESS && !event) log::warn("a deferred command failed: OpenCL error {}", r);
  if (event) event->deferred = false;
  if (entry.barrier) queue->deferred_barriers.fetch_sub(1);
  bool last = queue->deferred.fetch_sub(1) == 1;
  u32 left = commands_.fetch_sub(1) - 1;
  // clFinish waits for the first, wait_for_room() for the second.
  if (last || left + 1 == kMostKept / 2) link().wake_waiters();
  return true;
}

bool DeferredCommands::can_feed() {
  std::call_once(feeder_started_, [this] {
    auto run = [](void *self) { static_cast<DeferredCommands *>(self)->feed(); };
    can_feed_ = start_helper_thread("ckpt-feeder", run, this);
  });
  return can_feed_;
}

void DeferredCommands::feed() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      fed_.wait(lock, [this] { return held_back_; });
    }
    ApiCall call;
    link().wait_until([this] { return any_ready(); }, true);
    release();
    link().flush_releases();
  }
}

}  // namespace ckpt::ocl

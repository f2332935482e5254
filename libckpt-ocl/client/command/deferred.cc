// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/deferred.h"

#include <set>

namespace ckpt::ocl {

DeferredCommands &deferred_commands() {
  static DeferredCommands *d = new DeferredCommands;
  return *d;
}

void DeferredCommands::add(Command c, std::function<cl_int(Command &)> send) {
  Queue &q = c.queue();
  Event &e = c.event();
  e.status = CL_QUEUED;
  e.deferred = true;
  bool all = c.waits_for_all(), barrier = c.type() == CL_COMMAND_BARRIER;
  {
    std::lock_guard lock(mutex_);
    commands_.fetch_add(1);
    q.deferred.fetch_add(1);
    if (barrier) q.deferred_barriers.fetch_add(1);
    list_.push_back({std::move(c), std::move(send), all, barrier});
  }
  release();  // the user event may have been set since can_send_now() looked at it
}

// The first entry that depends on no deferred event and on no earlier entry of its queue.
std::list<DeferredCommands::Entry>::iterator DeferredCommands::next_ready() {
  std::set<Queue *> blocked, seen;
  for (auto it = list_.begin(); it != list_.end(); ++it) {
    Queue *q = it->command.queue_.get();
    bool behind = blocked.contains(q) || (it->waits_for_all && seen.contains(q));
    for (const Ref<Event> &e : it->command.kept_events_) behind = behind || e->deferred.load();
    if (!behind) return it;
    seen.insert(q);
    if (q->in_order() || it->barrier) blocked.insert(q);
  }
  return list_.end();
}

void DeferredCommands::release() {
  std::unique_lock lock(mutex_);
  again_ = true;
  if (releasing_) return;
  releasing_ = true;
  while (std::exchange(again_, false)) {
    for (auto it = next_ready(); it != list_.end(); it = next_ready()) {
      // The queue counts it until it is sent, so that no later command overtakes it.
      std::list<Entry> one;
      one.splice(one.begin(), list_, it);
      lock.unlock();
      run(one.front());
      lock.lock();
    }
  }
  releasing_ = false;
}

void DeferredCommands::run(Entry &entry) {
  Command &c = entry.command;
  Ref<Event> event(&c.event());
  Ref<Queue> queue(&c.queue());
  bool failed = false;
  c.waits_.clear();
  for (const Ref<Event> &e : c.kept_events_) {
    if (!e->finished()) c.waits_.push_back(handle<cl_event>(e.get()));
    failed = failed || e->status.load() < 0;
  }
  cl_int r = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  if (!failed) {
    event->status = CL_SUBMITTED;
    r = entry.send(c);
  }
  if (r != CL_SUCCESS && !event->finished()) finish_event(*event, r);
  event->deferred = false;
  if (entry.barrier) queue->deferred_barriers.fetch_sub(1);
  queue->deferred.fetch_sub(1);
  commands_.fetch_sub(1);
  link().wake_waiters();  // clFinish waits for deferred commands to be sent
}

}  // namespace ckpt::ocl

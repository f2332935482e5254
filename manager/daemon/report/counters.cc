// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/counters.h"

#include <algorithm>

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

Counters::Before Counters::before(const Program *p) {
  if (p == nullptr) return {.known = false};
  return {true, p->phase(), p->gpu(), p->contents().bytes};
}

void Counters::heard(Time now, ProgramId from, const managed::ToManager &message,
                     const Before &before) {
  from_programs[managed::name_of(message)]++;
  // The policy ignores it, so the request would never be answered.
  if (!before.known && !std::holds_alternative<in::Join>(message)) return;
  if (std::holds_alternative<in::Connect>(message)) open_[{from, 0}] = now;
  if (auto *m = std::get_if<in::CudaMalloc>(&message)) open_[{from, m->ticket}] = now;
  if (auto *m = std::get_if<in::Load>(&message)) open_[{from, m->ticket}] = now;
  if (auto *m = std::get_if<in::SuspendDone>(&message)) evicted(now, from, m->kept, before);
  if (auto *m = std::get_if<in::Evicted>(&message)) evicted(now, from, m->kept, before);
  if (std::holds_alternative<in::MigDone>(message)) resumed(now, from, before);
  if (std::holds_alternative<in::Fin>(message)) gone(from);
  // These end without an answer; a program that joins repeats the requests that it waits for.
  if (auto *m = std::get_if<in::MallocDone>(&message)) open_.erase({from, m->ticket});
  if (auto *m = std::get_if<in::LoadDone>(&message)) open_.erase({from, m->ticket});
  if (std::holds_alternative<in::Join>(message)) forget_requests(from);
}

void Counters::evicted(Time now, ProgramId id, u64 kept, const Before &before) {
  if (before.phase != Phase::Evicting && before.phase != Phase::Assigned) return;
  evictions++;
  bytes_out += kept;
  away_[id] = {now, before.gpu};
}

// Of a program that was evicted by an earlier daemon, the time and the GPU are unknown.
void Counters::resumed(Time now, ProgramId id, const Before &before) {
  if (before.phase != Phase::Resuming) return;
  resumes++;
  bytes_in += before.kept;
  auto a = away_.find(id);
  if (a == away_.end()) return;
  if (a->second.gpu != before.gpu) migrations++;
  away += now - a->second.since;
  away_.erase(a);
}

// All orders of one decision have its time, so a request that is answered at once has not waited.
void Counters::ordered(Time now, const Orders &orders) {
  for (const Order &o : orders) {
    to_programs[managed::name_of(o.message)]++;
    if (std::holds_alternative<out::Connect>(o.message)) answered(now, o.to, 0);
    if (auto *m = std::get_if<out::GoAhead>(&o.message); m != nullptr && m->ticket != 0)
      answered(now, o.to, m->ticket);
    if (auto *m = std::get_if<out::OutOfMemory>(&o.message)) {
      denials++;
      answered(now, o.to, m->ticket);
    }
  }
}

void Counters::answered(Time now, ProgramId id, u32 ticket) {
  auto asked = open_.find({id, ticket});
  if (asked == open_.end()) return;
  if (now > asked->second) {
    waits++;
    waited += now - asked->second;
  }
  open_.erase(asked);
}

void Counters::decided(Seconds took) {
  auto bucket = std::ranges::lower_bound(kBucketSeconds, took.count());
  decisions[static_cast<size_t>(bucket - kBucketSeconds.begin())]++;
  deciding += took;
}

void Counters::forget_requests(ProgramId id) {
  open_.erase(open_.lower_bound({id, 0}), open_.upper_bound({id, ~u32{0}}));
}

void Counters::gone(ProgramId id) {
  forget_requests(id);
  away_.erase(id);
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/admission/admission.h"

#include <algorithm>

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

void grant_all(Program &p) {
  for (Request &r : p.requests) r.granted = !r.refused;
}

}  // namespace

// ---- running programs

void Admission::serve_running() {
  for (const auto &p : state_.programs)
    while (p->blocked()) {
      auto next = std::ranges::find(p->requests, false, &Request::granted);
      if (!grant(*p, *next)) break;
    }
}

// False: it waits, or leaves, or another program leaves for it.
bool Admission::grant(Program &p, Request &r) {
  if (r.alone && !exclusivity_.is_alone(p)) {
    exclusivity_.make_alone(p);
    return false;
  }
  if (r.bytes > available_to(p)) {
    eviction_.make_room(p, r.bytes);
    return false;
  }
  GpuAccount &account = state_.account(p.gpu());
  r.granted = true;
  account.reserved += r.bytes;
  if (r.alone) {
    p.cleared_gpu = kNoGpu;
    account.exclusive = &p;
  }
  credits_.grant(p);
  state_.send(p, out::GoAhead{r.ticket});
  return true;
}

// Two exceptions from what is kept for the starving program: a program that cannot leave, because
// the starving program would have to wait for it in turn; and the memory that was expected of `p`
// when it was placed.
u64 Admission::available_to(const Program &p) const {
  const GpuAccount &account = state_.account(p.gpu());
  u64 own = eviction_.can_leave(p) ? expected_of(p) : account.available();
  return std::max(account.available_to(p), std::min(account.available(), own));
}

void Admission::answer_requests(Program &p) {
  for (const Request &r : p.requests) {
    if (r.refused)
      state_.send(p, out::OutOfMemory{r.ticket,
                                      "no GPU of this node has that much memory (ckpt-top shows "
                                      "the memory of each GPU)"});
    if (r.granted) state_.send(p, out::GoAhead{r.ticket});
  }
  std::erase_if(p.requests, [](const Request &r) { return r.refused; });
}

// ---- programs that wait for a GPU

// The members of a cohort are placed when the first of them has its turn, and by the cohort alone,
// unless there is only one.
void Admission::serve_waiting(const std::vector<Program *> &waiting) {
  Cohort::Members members = cohort_.members(waiting);
  bool together = members.size() > 1;
  auto member = members.begin();
  for (size_t i = 0; i < waiting.size(); i++) {
    Program &p = *waiting[i];
    bool of_cohort = member != members.end() && *member == &p;
    if (of_cohort && member == members.begin()) place_together(members, i == 0);
    if (of_cohort) member++;
    if (!p.waiting() || state_.now < p.retry_at) continue;
    if (p.stay() != nullptr && p.stay()->deepening) continue;  // until it has answered
    if (!placement_.suits_any(p)) {
      release(p);
      continue;
    }
    if (p.wants_alone()) exclusivity_.clear_gpu(p);
    if (!of_cohort || !together || p.wants_alone()) serve_one(p, std::span(waiting).subspan(i + 1));
    if (p.reserved_gpu() != kNoGpu) eviction_.end_time_slices(p, p.reserved_gpu());
    if (p.waiting() && !p.is_guest() && !p.wants_alone()) send_guests_away(p);
  }
}

// What an exchange makes room for must not be taken by another one, which is `first`.
void Admission::place_together(const Cohort::Members &members, bool first) {
  while (std::optional<Cohort::Place> next = cohort_.next(members))
    place(*next->program, next->gpu);
  if (first) exchange_.run(members);
}

void Admission::send_guests_away(const Program &p) {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    if (placement_.suits(p, g) && !state_.account(g).taken(p) && eviction_.send_guests_away(p, g))
      return;
}

// Others may take the turn of `p` until it is placed, or nothing has room.
void Admission::serve_one(Program &p, std::span<Program *const> behind) {
  while (p.waiting()) {
    GpuIndex g = placement_.choose_gpu(p);
    if (g == kNoGpu) return;
    Program *instead = placement_.choose_instead(behind, p, g);
    if (instead != nullptr) p.workload.times_skipped++;
    place(instead != nullptr ? *instead : p, g);
  }
}

void Admission::place(Program &p, GpuIndex g) {
  drop_reservation(p);
  grant_all(p);
  if (auto *pending = std::get_if<Pending>(&p.state))
    assign(p, *pending, g);
  else
    resume(p, g);
}

void Admission::assign(Program &p, const Pending &before, GpuIndex g) {
  Assigned here;
  here.gpu = g;
  here.expected = before.previous_gpu == kNoGpu ? p.workload.expected : before.expected;
  here.queued = {p.since, before.wait.starving_since};
  state_.enter(p, here);
  if (!p.exclusive) state_.accounting.add_assignment(p);
  state_.accounting.add(p, state_.gpu(g), state_.settings);
  state_.send(p, out::Connect{state_.gpu(g).uuid});
  answer_requests(p);
}

void Admission::resume(Program &p, GpuIndex g) {
  state_.enter(p, Resuming{g, p.contents(), p.stay() != nullptr ? *p.stay() : Stay{}});
  state_.accounting.add(p, state_.gpu(g), state_.settings);
  state_.send(p, out::Migrate{state_.gpu(g).uuid});
}

void Admission::drop_reservation(const Program &p) {
  if (p.reserved_gpu() != kNoGpu) state_.account(p.reserved_gpu()).starving = nullptr;
  if (state_.accounting.starving == &p) state_.accounting.starving = nullptr;
}

// An earlier Manager had managed that device.
void Admission::release(Program &p) {
  state_.enter(p, Resuming{kNoGpu, p.contents(), p.stay() != nullptr ? *p.stay() : Stay{}});
  grant_all(p);
  state_.send(p, out::Migrate{});
}

}  // namespace ckpt::manager

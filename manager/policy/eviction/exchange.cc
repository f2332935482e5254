// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/exchange.h"

#include <algorithm>

#include "manager/policy/eviction/move_time.h"

namespace ckpt::manager {

namespace {

// Multiples of unit(): how long a program has run before it is exchanged, what it
// has to have left, and how much longer than it the other one must take.
constexpr int kRunBeforeMisfit = 10, kRunBeforeEnd = 5, kWorthMoving = 5, kLonger = 10;

bool needs_engine(const Program &p) {
  return p.workload.demand.role() == Role::Computes && !p.wants_alone();
}

// It would take the place itself.
bool is_new(const Program *p) {
  return p->workload.demand.role() == Role::Unknown && !p->wants_alone();
}

}  // namespace

void Exchange::run(const Cohort::Members &members) {
  auto waits = [](const Program *p) { return p->waiting(); };
  Cohort::Members waiting;
  std::ranges::copy_if(members, std::back_inserter(waiting), waits);
  if (std::ranges::any_of(waiting, is_new)) return;
  if (waiting.size() >= 2) evict(keeps_engine_idle(waiting));
  evict(nearer_to_end(waiting));
}

// What programs do is known no finer than their reports.
Time Exchange::unit() const {
  return std::max(state_.settings.min_residency, state_.settings.progress_interval);
}

void Exchange::evict(Program *p) {
  if (p != nullptr && eviction_.can_leave(*p)) eviction_.signal(*p);
}

bool Exchange::is_settled(const Program &p, int times) const {
  return p.is(Phase::Assigned) && p.context() && p.requests.empty() &&
         state_.has_run(p, times * unit());
}

// ---- a GPU without a program that computes

Program *Exchange::keeps_engine_idle(const Cohort::Members &members) const {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const GpuAccount &a = state_.account(g);
    bool lacks = a.programs > 0 && a.load.computing() == 0;
    if (!lacks || a.exclusive != nullptr || a.leaving > 0) continue;
    if (Program *p = misfit_of(g, members)) return p;
  }
  return nullptr;
}

// The largest that was not evicted before, does not end soon, and leaves enough room.
Program *Exchange::misfit_of(GpuIndex g, const Cohort::Members &members) const {
  Program *best = nullptr;
  for (const auto &p : state_.programs) {
    if (p->gpu() != g || p->evictions > 0 || !is_settled(*p, kRunBeforeMisfit)) continue;
    std::optional<Time> left = work_.left(*p);
    if (left && *left <= kWorthMoving * unit()) continue;
    auto comes = [&](const Program *m) { return needs_engine(*m) && makes_room(*p, *m); };
    if (std::ranges::none_of(members, comes)) continue;
    if (best == nullptr || p->used > best->used) best = p.get();
  }
  return best;
}

bool Exchange::makes_room(const Program &out, const Program &in) const {
  const Gpu &gpu = state_.gpu(out.gpu());
  u64 room = state_.account(out.gpu()).available() + footprint_of(out, gpu, state_.settings);
  return placement_.suits(in, out.gpu()) && room_of(in, gpu, state_.settings) <= room;
}

// ---- the end

// Where least is left, and less than the longest waiting program has.
Program *Exchange::nearer_to_end(const Cohort::Members &members) const {
  const Program *next = longest(members);
  if (next == nullptr) return nullptr;
  Time least = *work_.left(*next) - kLonger * unit();
  GpuIndex best = kNoGpu;
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const GpuAccount &a = state_.account(g);
    if (a.leaving > 0) return nullptr;
    if (a.exclusive != nullptr || !placement_.suits(*next, g)) continue;
    std::optional<Time> left = left_on(g);
    if (!left || *left >= least || *left <= kWorthMoving * unit()) continue;
    best = g;
    least = *left;
  }
  Program *out = nullptr;
  for (const auto &p : state_.programs)
    if (best != kNoGpu && p->gpu() == best && (out == nullptr || p->used > out->used) &&
        makes_room(*p, *next))
      out = p.get();
  return out != nullptr && pays(*out, *next) ? out : nullptr;
}

// Their moves are a small part of the time that passes before they could be exchanged back.
bool Exchange::pays(const Program &out, const Program &in) const {
  u64 bytes = out.used + out.variables + std::max(in.used, in.workload.expected) + in.variables;
  return *work_.left(in) - *work_.left(out) >= kMoveTimesToPayOff * move_time(bytes);
}

// Null: more than one program waits for each GPU, or it is not known how long they take. With one
// GPU, no order is better than another.
const Program *Exchange::longest(const Cohort::Members &members) const {
  if (state_.gpus.size() < 2 || members.size() > state_.gpus.size()) return nullptr;
  const Program *longest = nullptr;
  for (const Program *p : members) {
    if (!work_.left(*p) || p->wants_alone()) return nullptr;
    if (longest == nullptr || *work_.left(*p) > *work_.left(*longest)) longest = p;
  }
  return longest;
}

// No value: unknown, or one of its programs has just come.
std::optional<Time> Exchange::left_on(GpuIndex g) const {
  Time sum{0};
  for (const auto &p : state_.programs) {
    if (p->gpu() != g) continue;
    std::optional<Time> left = work_.left(*p);
    if (!left || !is_settled(*p, kRunBeforeEnd)) return std::nullopt;
    sum += *left;
  }
  return sum > Time{0} ? std::optional(sum) : std::nullopt;
}

}  // namespace ckpt::manager

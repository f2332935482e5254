// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/eviction.h"

#include <tuple>

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

// A program is nearly finished when it has made this part of the calls of an earlier run; beyond
// kNoLonger the earlier run says nothing about it.
constexpr double kNearlyFinished = 0.8, kNoLonger = 1.2;
// A program that was evicted is spared for this many times Settings::min_residency.
constexpr int kSpareFactor = 10;

u64 bytes_to_keep(const Program &p) { return p.used + p.variables + p.credit(); }

}  // namespace

// ---- leaving

bool Eviction::can_leave(const Program &p) const {
  const Settings &s = state_.settings;
  if (p.alone() || p.refusals >= s.max_refusals) return false;
  if (p.refusals > 0 && state_.now < p.retry_at) return false;
  u64 bytes = bytes_to_keep(p);
  const Accounting &a = state_.accounting;
  bool in_memory = bytes <= s.host_bytes && a.host_kept <= s.host_bytes - bytes;
  bool on_disk =
      !s.disk_folder.empty() && bytes <= s.disk_bytes && a.disk_kept <= s.disk_bytes - bytes;
  return in_memory || on_disk;
}

Evicting &Eviction::begin(Program &p, bool memory_only) {
  u64 bytes = bytes_to_keep(p), host = state_.settings.host_bytes;
  bool on_disk = bytes > host || state_.accounting.host_kept > host - bytes;
  Contents contents{bytes, on_disk};
  state_.accounting.keep(contents);
  Residence stay = *p.residence();
  Evicting leaving{stay, contents};
  leaving.memory_only = memory_only;
  state_.enter(p, leaving);
  GpuAccount &account = state_.account(p.gpu());
  account.leaving++;
  account.freeing += freed_by(p, state_.gpu(p.gpu()), state_.settings);
  return std::get<Evicting>(p.state);
}

bool Eviction::may_leave_context(const Program &p, u64 missing) const {
  bool has_depths = p.knows_depths && (p.apis & managed::kCuda) != 0;
  if (!has_depths || !p.context()) return false;
  const Gpu &gpu = state_.gpu(p.gpu());
  u64 frees = footprint_of(p, gpu, state_.settings) - stay_of(p, gpu, state_.settings);
  return frees >= missing;
}

void Eviction::signal(Program &p, bool memory_only) {
  begin(p, memory_only);
  state_.send(p, out::Signal{});
}

void Eviction::suspend(Program &p, bool memory_only) {
  begin(p, memory_only);
  send_suspend(p);
}

void Eviction::send_suspend(Program &p) {
  Evicting &e = std::get<Evicting>(p.state);
  e.suspend_sent = true;
  std::string folder = e.contents.on_disk ? state_.settings.disk_folder : "";
  if (e.memory_only)
    state_.send(p, out::SuspendMemory{folder});
  else
    state_.send(p, out::Suspend{folder});
}

// ---- for a request

void Eviction::make_room(Program &p, u64 bytes) {
  if (credits_.returning(p.gpu())) return;
  const GpuAccount &account = state_.account(p.gpu());
  bool for_starving = account.kept_from(p);
  u64 coming = account.available_to(p) + account.freeing;
  bool leaving = account.leaving > 0 || account.deepening > 0;
  if (!for_starving && leaving && coming >= bytes) return;
  // Evicted programs give back what stays of them first (deepening.h).
  if (!for_starving && account.staying > 0 && coming + account.staying >= bytes) return;
  bool choose = state_.settings.victim == Victim::Cheapest && !for_starving;
  Program *guest =
      p.is_guest() ? nullptr : guest_to_leave(p.gpu(), bytes - std::min(bytes, coming));
  Program *victim = guest != nullptr ? guest : choose ? cheapest(p, bytes) : &p;
  if (victim == nullptr || !can_leave(*victim)) return;  // it waits with its memory
  if (victim == &p)
    suspend(p, may_leave_context(p, 0));
  else
    signal(*victim, may_leave_context(*victim, bytes - std::min(bytes, coming)));
}

// Only programs count that make enough room by leaving. The one that asks always does.
Program *Eviction::cheapest(const Program &asking, u64 bytes) const {
  Program *best = nullptr;
  auto cost = [this](const Program &p) {
    return std::tuple(p.priority, is_spared(p), p.used, -p.arrived);
  };
  for (const auto &p : state_.programs) {
    if (p->gpu() != asking.gpu() || !p->is(Phase::Assigned) || !can_leave(*p)) continue;
    if (p.get() != &asking) {
      u64 coming = state_.account(p->gpu()).available() +
                   footprint_of(*p, state_.gpu(p->gpu()), state_.settings);
      bool may = state_.has_run(*p, state_.settings.min_residency) && p->context();
      if (!may || coming < bytes) continue;
    }
    if (best == nullptr || cost(*p) < cost(*best)) best = p.get();
  }
  return best;
}

bool Eviction::is_spared(const Program &p) const {
  double whole = static_cast<double>(profiles_.calls(p.workload.profile));
  double calls = static_cast<double>(p.workload.calls);
  bool nearly_finished = calls > whole * kNearlyFinished && calls < whole * kNoLonger;
  bool just_resumed =
      p.evictions > 0 && !state_.has_run(p, state_.settings.min_residency * kSpareFactor);
  return nearly_finished || just_resumed;
}

// ---- programs that do not answer

// An unresponsive program stays where it is, and counted. An exclusive program gets another GPU
// instead of waiting for it, and a request evicts the program that made it. If the unresponsive
// program answers later, it leaves as it was told, unless that has become useless.
void Eviction::note_unresponsive() {
  for (const auto &p : state_.programs) {
    if (auto *evicted = std::get_if<Evicted>(&p->state)) note_unresponsive(*evicted);
    auto *e = std::get_if<Evicting>(&p->state);
    if (e == nullptr || e->unresponsive) continue;
    if (!state_.has_run(*p, state_.settings.eviction_timeout)) continue;
    e->unresponsive = true;
    if (e->gpu == kNoGpu) continue;
    GpuAccount &account = state_.account(e->gpu);
    account.leaving--;
    account.freeing -= freed_by(*p, state_.gpu(e->gpu), state_.settings);
  }
}

void Eviction::note_unresponsive(Evicted &evicted) {
  Stay &stay = evicted.stay;
  if (!stay.deepening || stay.fixed) return;
  if (state_.now - stay.since < state_.settings.eviction_timeout) return;
  stay.fixed = true;
  GpuAccount &account = state_.account(stay.gpu);
  account.deepening--;
  account.freeing -= stay.bytes;
}

// The program that stopped waiting for it was evicted itself.
bool Eviction::resumes_first(const Program &p, const Program &other) {
  bool goes_first = other.starving_since() || other.priority > p.priority ||
                    (other.priority == p.priority && other.arrived < p.arrived);
  return p.unresponsive() && !other.blocked() && !other.wants_alone() && !goes_first;
}

// ---- time slices

void Eviction::end_time_slices(const Program &starving, GpuIndex g) {
  if (state_.settings.time_slice == Time{0} || starving.wants_alone()) return;
  leave_for(starving, g, [&](u64) { return longest_resident(starving, g); });
}

void Eviction::leave_for(const Program &p, GpuIndex g, const std::function<Program *(u64)> &next) {
  const GpuAccount &account = state_.account(g);
  u64 need = room_of(p, state_.gpu(g), state_.settings);
  for (;;) {
    bool place = account.programs - account.leaving < state_.settings.programs_per_gpu;
    u64 coming = account.available() + account.freeing + account.staying_beside(p);
    if (place && coming >= need) return;
    credits_.revoke();
    if (place && credits_.returning(g)) return;
    u64 missing = need - std::min(need, coming);
    Program *leaves = next(missing);
    if (leaves == nullptr) return;
    signal(*leaves, may_leave_context(*leaves, missing));
  }
}

Program *Eviction::longest_resident(const Program &starving, GpuIndex g) const {
  Program *longest = nullptr;
  for (const auto &q : state_.programs) {
    bool may = q->gpu() == g && q->is(Phase::Assigned) && q->context() &&
               q->priority <= starving.priority && can_leave(*q) &&
               state_.has_run(*q, state_.settings.time_slice);
    if (may && (longest == nullptr || q->since < longest->since)) longest = q.get();
  }
  return longest;
}

// ---- guests

bool Eviction::is_guest_to_leave(const Program &p, GpuIndex g) const {
  return p.is_guest() && p.gpu() == g && p.is(Phase::Assigned) && p.context() && can_leave(p);
}

// The smallest that frees what is missing by itself, otherwise the largest. They have no minimum
// residency.
Program *Eviction::guest_to_leave(GpuIndex g, u64 missing) const {
  Program *best = nullptr;
  auto rank = [&](const Program &p) {
    u64 frees = footprint_of(p, state_.gpu(g), state_.settings);
    return std::tuple(frees < missing, frees < missing ? ~frees : frees);
  };
  for (const auto &q : state_.programs) {
    if (is_guest_to_leave(*q, g) && (best == nullptr || rank(*q) < rank(*best))) best = q.get();
  }
  return best;
}

bool Eviction::send_guests_away(const Program &p, GpuIndex g) {
  const Gpu &gpu = state_.gpu(g);
  const GpuAccount &account = state_.account(g);
  u64 room = account.available() + account.freeing + account.staying_beside(p);
  for (const auto &q : state_.programs)
    if (is_guest_to_leave(*q, g)) room += footprint_of(*q, gpu, state_.settings);
  if (room < room_of(p, gpu, state_.settings)) return false;
  leave_for(p, g, [&](u64 missing) { return guest_to_leave(g, missing); });
  return true;
}

}  // namespace ckpt::manager

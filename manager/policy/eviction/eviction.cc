// SPDX-License-Identifier: Apache-2.0
//
// Who leaves when memory runs short. The paper's answer is always the requester (MC-12); others are
// asked by a signal: for a program that wants a GPU for itself (MC-16), by cost where that is
// configured, and at the end of a time slice. (Who moves to an empty GPU: balance.cc.)
#include <algorithm>
#include <tuple>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace out = managed::to_program;

// ---- for a request

bool Policy::grant_or_make_room(Program &p, Request &r) {
  GpuAccount &account = account_of(p);
  if (r.alone && !has_it_alone(p)) return make_alone(p), false;
  // Who cannot leave is not held back for an starving, which would wait for it in turn. And what
  // was expected of a program when it came is for it.
  u64 own = can_leave(p) ? expected_of(p) : account.available();
  u64 available = std::max(account.available_to(p), std::min(account.available(), own));
  if (r.bytes <= available) {
    r.granted = true;
    account.reserved += r.bytes;
    if (r.alone) p.target = kNoGpu, account.exclusive = &p;
    grant_credit(p);
    send(p, out::GoAhead{r.ticket});
    return true;
  }
  if (!credit_returning(p.gpu)) make_room(p, r.bytes);
  return false;
}

void Policy::make_room(Program &p, u64 bytes) {
  const GpuAccount &account = account_of(p);
  bool for_elder = account.starving != nullptr && account.starving != &p;
  u64 coming = account.available_to(p) + account.leaving;
  if (!for_elder && account.leavers > 0 && coming >= bytes) return;
  Program *victim = settings_.victim == Victim::Cheapest && !for_elder ? cheapest(p, bytes) : &p;
  if (victim == nullptr || !can_leave(*victim)) return;  // it waits where it is
  if (victim == &p)
    suspend(p);
  else
    signal(*victim);
}

// One that makes room by itself; the requester always does.
Program *Policy::cheapest(const Program &asking, u64 bytes) {
  Program *best = nullptr;
  auto cost = [this](const Program &p) {
    return std::tuple(p.priority, spared(p), p.used, -p.arrived);
  };
  for (const auto &p : programs_) {
    if (p->gpu != asking.gpu || p->phase != Phase::Assigned || !can_leave(*p)) continue;
    bool itself = p.get() == &asking;
    u64 comes_free = account_of(*p).available() + footprint_of(*p, gpu_of(*p), settings_);
    if (!itself && (!has_run(*p, settings_.min_residency) || comes_free < bytes || !p->context))
      continue;
    if (best == nullptr || cost(*p) < cost(*best)) best = p.get();
  }
  return best;
}

// ---- leaving

// It has not failed to too often, and there is room for what it has.
bool Policy::can_leave(const Program &p) const {
  if (p.alone() || p.refusals >= settings_.max_refusals) return false;
  if (p.refusals > 0 && now_ < p.not_before) return false;
  u64 bytes = p.used + p.variables + p.credit;
  bool in_memory =
      bytes <= settings_.host_bytes && accounting_.host_kept <= settings_.host_bytes - bytes;
  bool on_disk = !settings_.disk_folder.empty() && bytes <= settings_.disk_bytes &&
                 accounting_.disk_kept <= settings_.disk_bytes - bytes;
  return in_memory || on_disk;
}

void Policy::keep_contents(Program &p) {
  p.kept = p.used + p.variables + p.credit;
  p.on_disk =
      p.kept > settings_.host_bytes || accounting_.host_kept > settings_.host_bytes - p.kept;
  (p.on_disk ? accounting_.disk_kept : accounting_.host_kept) += p.kept;
}

// In answer to its own request, so it need not be signalled first.
void Policy::suspend(Program &p) {
  signal(p);
  p.told = true;
  orders_.back().message = out::Suspend{p.on_disk ? settings_.disk_folder : ""};
}

void Policy::signal(Program &p) {
  keep_contents(p);
  go_to(p, Phase::Evicting);
  account_of(p).leavers++;
  account_of(p).leaving += footprint_of(p, gpu_of(p), settings_);
  send(p, out::Signal{});
}

// Whoever had to stop waiting for it to leave has left itself. If its own turn comes first it would
// be back at once, and leave in vain.
bool Policy::leaves_in_vain(const Program &p, const Program &for_it) const {
  bool its_turn = for_it.starving_since || for_it.priority > p.priority ||
                  (for_it.priority == p.priority && for_it.arrived < p.arrived);
  return p.stuck && !for_it.blocked() && !for_it.wants_alone() && !its_turn;
}

// A victim that does not answer in time stays where it is, and counted. Nobody waits for it any
// longer: an exclusive program looks for another GPU, a request makes its own program leave. It is
// not killed; if it answers after all, it is evicted as it was told.
void Policy::note_the_stuck() {
  for (const auto &p : programs_) {
    if (p->phase != Phase::Evicting || p->stuck || now_ - p->since < settings_.eviction_timeout)
      continue;
    p->stuck = true;
    if (p->gpu == kNoGpu) continue;
    GpuAccount &account = account_of(*p);
    account.leavers--;
    account.leaving -= footprint_of(*p, gpu_of(*p), settings_);
  }
}

// ---- a GPU for one program

// Who cannot leave is in the way of the one that the GPU is cleared for, and so goes first.
bool Policy::has_it_alone(const Program &p) const {
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(p.gpu)];
  bool taken = account.exclusive != nullptr && account.exclusive != &p && can_leave(p);
  return !taken && account.programs == 1 && !gpus_[static_cast<size_t>(p.gpu)].dying;
}

// It runs, and is about to load code whose kernels use the heap. That code has not run yet, so it
// can still leave: for a GPU where nobody is, or because the others here cannot. Else they leave.
// Of two that ask for this on one GPU the second one's wish is taken as any other program's
// presence: it leaves, and comes back alone.
void Policy::make_alone(Program &p) {
  bool clears = p.target == p.gpu && may_clear(p);
  GpuIndex empty = clears || !can_leave(p) ? kNoGpu : empty_gpu(p);
  p.target = empty != kNoGpu ? empty : may_clear(p) ? p.gpu : kNoGpu;
  if (p.target != kNoGpu) accounting_.gpus[static_cast<size_t>(p.target)].exclusive = &p;
  if (p.target == p.gpu) return evict_others(p);
  if (can_leave(p)) suspend(p);
}

bool Policy::may_clear(const Program &p) const {
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(p.gpu)];
  bool taken = account.exclusive != nullptr && account.exclusive != &p;
  return !taken && cost_to_clear(p.gpu, p).has_value();
}

GpuIndex Policy::empty_gpu(const Program &p) {
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++)
    if (g != p.gpu && may_enter(p, g)) return g;
  return kNoGpu;
}

void Policy::clear_for(Program &p) {
  GpuIndex easiest = easiest_to_clear(p);
  bool still_good =
      p.target != kNoGpu && suits(p, p.target) && cost_to_clear(p.target, p).has_value();
  if (!still_good && easiest != kNoGpu) {
    if (p.target != kNoGpu && accounting_.gpus[static_cast<size_t>(p.target)].exclusive == &p)
      accounting_.gpus[static_cast<size_t>(p.target)].exclusive = nullptr;
    p.target = easiest;
    accounting_.gpus[static_cast<size_t>(easiest)].exclusive = &p;
  }
  if (p.target != kNoGpu) evict_others(p);
}

GpuIndex Policy::easiest_to_clear(const Program &p) const {
  GpuIndex best = kNoGpu;
  std::optional<u64> least;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    const Gpu &gpu = gpus_[static_cast<size_t>(g)];
    const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
    bool taken = account.exclusive != nullptr && account.exclusive != &p;
    bool for_elder = account.starving != nullptr && account.starving != &p;
    if (!suits(p, g) || taken || for_elder || least_need_of(p, gpu) > gpu.total) continue;
    std::optional<u64> cost = cost_to_clear(g, p);
    if (cost && (!least || *cost < *least)) best = g, least = cost;
  }
  return best;
}

// Bytes to move, of all but `p`; none: somebody there cannot leave.
std::optional<u64> Policy::cost_to_clear(GpuIndex g, const Program &p) const {
  u64 bytes = 0;
  for (const auto &q : programs_) {
    if (q->gpu != g || !q->on_gpu() || q.get() == &p) continue;
    if (q->stuck || (q->phase == Phase::Assigned && !can_leave(*q))) return std::nullopt;
    bytes += q->used + 1;
  }
  return bytes;
}

void Policy::evict_others(Program &exclusive) {
  for (const auto &q : programs_)
    if (q.get() != &exclusive && q->gpu == exclusive.target && q->phase == Phase::Assigned &&
        can_leave(*q) && has_run(*q, settings_.min_residency))
      signal(*q);
}

// ---- time slices

void Policy::end_slices(const Program &starving, GpuIndex g) {
  if (settings_.time_slice == Time{0} || starving.wants_alone()) return;
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  u64 need = need_of(starving, gpus_[static_cast<size_t>(g)], settings_);
  for (;;) {
    bool slot = account.programs - account.leavers < settings_.programs_per_gpu;
    if (slot && account.available() + account.leaving >= need) return;
    revoke_credits();
    if (slot && credit_returning(g)) return;
    Program *longest = nullptr;
    for (const auto &q : programs_)
      if (q->gpu == g && q->phase == Phase::Assigned && q->context &&
          q->priority <= starving.priority && can_leave(*q) && has_run(*q, settings_.time_slice) &&
          (longest == nullptr || q->since < longest->since))
        longest = q.get();
    if (longest == nullptr) return;
    signal(*longest);
  }
}

}  // namespace ckpt::manager

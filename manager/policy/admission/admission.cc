// SPDX-License-Identifier: Apache-2.0
//
// Who gets what has come free. Running programs that wait for more come first, then the waiting
// set: first fit in order of arrival, on any GPU (MC-13). Who has waited too long becomes the
// *starving*: a GPU is chosen for it, and what comes free there is kept for it until it fits.
#include <algorithm>
#include <tuple>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

std::string mib(u64 bytes) { return fmt::format("{} MiB", (bytes + kMiB - 1) / kMiB); }

}  // namespace

void Policy::serve() {
  if (!open_at_) open_at_ = now_ + settings_.startup_delay;
  if (now_ < *open_at_) return;
  update_expectations();
  accounting_ = accounting();
  note_the_stuck();
  std::vector<Program *> waiting = in_order();
  // Before the waiting set, or who has just left would take again what it has left.
  serve_requests();
  serve_waiting(waiting);
  revoke_credits();
  give_up_hopeless();
  undo_deadlocks();
  balance();
}

// ---- running programs

void Policy::serve_requests() {
  for (const auto &p : programs_)
    while (p->blocked()) {
      auto next = std::ranges::find(p->requests, false, &Request::granted);
      if (!grant_or_make_room(*p, *next)) break;
    }
}

// ---- the waiting set

// Who is to keep its place, the starving, then by priority, then as they came.
std::vector<Program *> Policy::in_order() {
  std::vector<Program *> waiting;
  Program *starving = nullptr;
  // Who is the starving already stays it, or who came early and leaves now and then would always
  // be.
  auto since = [](const Program &p) { return p.starving_since.value_or(Time::max()); };
  Time limit = settings_.time_slice > Time{0}
                   ? std::min(settings_.time_slice, settings_.starvation_limit)
                   : settings_.starvation_limit;
  for (const auto &p : programs_) {
    if (!p->waiting()) continue;
    waiting.push_back(p.get());
    bool held_by_limit = p->phase == Phase::Pending && none_assignable(*p);
    if (now_ - p->since < limit || held_by_limit) continue;
    if (starving == nullptr || since(*p) < since(*starving)) starving = p.get();
  }
  ProgramId first = starving != nullptr ? starving->id : 0;
  auto rank = [&](const Program *p) {
    return std::tuple(!keeps_place(*p, p->previous_gpu), p->id != first, -i64{p->priority});
  };
  auto before = [&](const Program *a, const Program *b) { return rank(a) < rank(b); };
  if (!std::ranges::is_sorted(waiting, before)) std::ranges::stable_sort(waiting, before);
  for (Program *p : waiting)
    if (p != starving) p->reserved_gpu = kNoGpu;
  if (starving == nullptr) return waiting;
  if (!starving->starving_since) starving->starving_since = now_;
  accounting_.starving = starving;
  keep_for(*starving);
  return waiting;
}

void Policy::serve_waiting(const std::vector<Program *> &waiting) {
  for (size_t i = 0; i < waiting.size(); i++) {
    Program &p = *waiting[i];
    if (!p.waiting() || now_ < p.not_before) continue;
    if (!suits_any(p)) {
      send_home(p);
      continue;
    }
    if (p.wants_alone()) clear_for(p);
    serve_one(p, std::span(waiting).subspan(i + 1));
    if (p.waiting() && p.reserved_gpu != kNoGpu) end_slices(p, p.reserved_gpu);
  }
}

void Policy::serve_one(Program &p, std::span<Program *const> behind) {
  while (p.waiting()) {
    GpuIndex g = where(p);
    if (g == kNoGpu) return;
    Program *other = better_company(behind, p, g);
    if (other != nullptr) p.passed++;
    place(other != nullptr ? *other : p, g);
  }
}

bool Policy::suits(const Program &p, GpuIndex g) const {
  return serves(gpus_[static_cast<size_t>(g)], p.apis) && !p.unsuited.contains(g);
}

bool Policy::suits_any(const Program &p) const {
  if (p.unsuited.empty()) return servers_[p.apis].gpus > 0;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++)
    if (suits(p, g)) return true;
  return false;
}

// MC-18: for the node, and for the GPUs that `p` can use, where those count that can use no others.
// By the first alone, programs that wait for GPUs of one profile would keep others from those of
// another.
bool Policy::none_assignable(const Program &p, bool one_is_kept) const {
  if (p.wants_alone()) return false;
  size_t most = settings_.programs_per_gpu, kept = one_is_kept ? 1 : 0;
  if (accounting_.assigned + kept >= most * gpus_.size()) return true;
  const Servers &servers = servers_[p.apis];
  size_t there = one_is_kept && servers.within[accounting_.starving->apis] ? 1 : 0;
  for (size_t apis = 0; apis < servers.within.size(); apis++)
    if (servers.within[apis]) there += accounting_.assigned_by[apis];
  return there >= most * servers.gpus;
}

// It asks once more, for what was expected of it when it came there.
bool Policy::keeps_place(const Program &p, GpuIndex g) const {
  bool there = g != kNoGpu && g == p.previous_gpu;
  return there && p.variables + p.used + p.requested() <= p.promised;
}

// For the starving, if it could make use of `g`.
bool Policy::keeps_assignment(const Program &p, GpuIndex g) const {
  const Program *starving = accounting_.starving;
  if (starving == nullptr || starving == &p || starving->phase != Phase::Pending ||
      starving->wants_alone())
    return false;
  if (keeps_place(p, g)) return false;
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  return suits(*starving, g) && least_need_of(*starving, gpu) <= gpu.total;
}

bool Policy::may_enter(const Program &p, GpuIndex g) {
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  u32 most = settings_.programs_per_gpu;
  bool others = account.starving != nullptr && account.starving != &p;
  if (!suits(p, g)) return false;
  if (account.exclusive != nullptr && account.exclusive != &p) return false;
  // What its kernels will allocate is not known, so nothing of an earlier one may be in its way.
  if (p.wants_alone() && (account.programs > 0 || gpus_[static_cast<size_t>(g)].dying))
    return false;
  if (account.programs + (others ? 1 : 0) >= most) return false;
  if (p.phase == Phase::Pending && (none_assignable(p, keeps_assignment(p, g)) ||
                                    account.contextless >= settings_.contextless_per_gpu))
    return false;
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  // Where nobody is there is no better place to wait for, whatever others of its profile have had.
  bool alone = account.programs == 0 && !gpu.foreign && !gpu.dying;
  u64 need = alone                   ? least_need_of(p, gpu)
             : account.programs == 0 ? asked_of(p, gpu, settings_)
                                     : need_of(p, gpu, settings_);
  u64 room = keeps_place(p, g) ? account.available() : account.available_to(p);
  return need + account.expected <= room && !kept_apart(p, g);
}

// To a device that is not ours to give: another Manager had it.
void Policy::send_home(Program &p) {
  go_to(p, Phase::Resuming);
  for (Request &r : p.requests) r.granted = !r.refused;
  send(p, out::Migrate{});
}

// Where it has not failed to return, and will have all that others of its profile had; then where
// the fewest are, and of these, whom it suits best, and then where most is free: programs that
// share a GPU slow each other down.
GpuIndex Policy::where(const Program &p) {
  GpuIndex best = kNoGpu;
  auto cost = [&](GpuIndex g) {
    const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
    return std::tuple(p.failures(g), too_small(p, g), account.programs, stretch_with(p, g),
                      ~account.available());
  };
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    if (!may_enter(p, g)) continue;
    if (g == p.previous_gpu) return g;
    if (best == kNoGpu || cost(g) < cost(best)) best = g;
  }
  return best;
}

void Policy::place(Program &p, GpuIndex g) {
  bool held = p.phase == Phase::Pending;
  if (held) p.first_since = p.since, p.first_elder_since = p.starving_since;
  if (p.previous_gpu == kNoGpu) p.promised = p.expected;
  if (p.reserved_gpu != kNoGpu)
    accounting_.gpus[static_cast<size_t>(p.reserved_gpu)].starving = nullptr;
  if (accounting_.starving == &p) accounting_.starving = nullptr;
  go_to(p, held ? Phase::Assigned : Phase::Resuming);
  p.gpu = g;
  p.previous_gpu = kNoGpu;
  company_changes(p);
  if (held) p.checks = 0;
  if (held && !p.exclusive) accounting_.assigned++, accounting_.assigned_by[p.apis]++;
  for (Request &r : p.requests) r.granted = !r.refused;
  enter(accounting_, p, gpu_of(p), settings_);
  if (!held) return send(p, out::Migrate{gpu_of(p).uuid});
  send(p, out::Connect{gpu_of(p).uuid});
  answer_requests(p);
}

// Its GPU stays the same while it waits, or it would run after what others have just taken.
void Policy::keep_for(Program &starving) {
  auto missing = [&](GpuIndex g) -> u64 {
    const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
    u64 need = need_of(starving, gpus_[static_cast<size_t>(g)], settings_);
    u64 coming = account.available() + account.leaving;
    return need > coming ? need - coming : 0;
  };
  auto closed = [&](GpuIndex g) {
    const Program *holder = accounting_.gpus[static_cast<size_t>(g)].exclusive;
    return holder != nullptr && holder != &starving;
  };
  if (starving.reserved_gpu == kNoGpu || closed(starving.reserved_gpu) ||
      !suits(starving, starving.reserved_gpu)) {
    starving.reserved_gpu = kNoGpu;
    for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
      const Gpu &gpu = gpus_[static_cast<size_t>(g)];
      if (!suits(starving, g) || least_need_of(starving, gpu) > gpu.total) continue;
      auto cost = [&](GpuIndex i) {
        return std::tuple(too_small(starving, i), closed(i), missing(i));
      };
      if (starving.reserved_gpu == kNoGpu || cost(g) < cost(starving.reserved_gpu))
        starving.reserved_gpu = g;
    }
  }
  if (starving.reserved_gpu == kNoGpu) return;
  GpuAccount &account = accounting_.gpus[static_cast<size_t>(starving.reserved_gpu)];
  const Gpu &gpu = gpus_[static_cast<size_t>(starving.reserved_gpu)];
  account.starving = &starving;
  account.starving_need =
      starving.wants_alone() ? gpu.total : std::min(gpu.total, need_of(starving, gpu, settings_));
}

// ---- what no waiting helps

bool Policy::never_fits(const Program &p) const {
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    const Gpu &gpu = gpus_[static_cast<size_t>(g)];
    if (suits(p, g) && least_need_of(p, gpu) <= gpu.total) return false;
  }
  return true;
}

std::optional<std::string> Policy::over_limit(const Program &p) const {
  u64 wanted = p.used + p.variables + p.requested();
  if (settings_.program_bytes != 0 && wanted > settings_.program_bytes)
    return fmt::format(
        "a program may have {} on a GPU of this node (ckptd --program-memory); with what it asks "
        "for it would have {}",
        mib(settings_.program_bytes), mib(wanted));
  if (!never_fits(p)) return std::nullopt;
  return fmt::format("no GPU of this node has {} for one program (ckpt-top shows what they have)",
                     mib(wanted));
}

void Policy::deny(Program &p, Request &r, const std::string &why) {
  send(p, out::OutOfMemory{r.ticket, why});
  u32 ticket = r.ticket;
  std::erase_if(p.requests, [&](const Request &q) { return q.ticket == ticket; });
  if (!p.wants_alone()) p.target = kNoGpu;
}

// Where it could be, nobody is, and yet it does not fit: the driver itself has the rest.
bool Policy::hopeless(const Program &p) const {
  for (size_t g = 0; g < gpus_.size(); g++) {
    u64 need = least_need_of(p, gpus_[g]);
    if (!suits(p, static_cast<GpuIndex>(g)) || need > gpus_[g].total) continue;
    if (gpus_[g].foreign || gpus_[g].dying) return false;
    if (accounting_.gpus[g].programs > 0 || gpus_[g].free >= need) return false;
  }
  return true;
}

void Policy::give_up_hopeless() {
  for (const auto &p : programs_) {
    if (!p->waiting() || now_ < p->not_before) continue;
    while (hopeless(*p) && refuse_one(*p)) {
    }
    if (p->phase != Phase::Pending || !hopeless(*p)) continue;
    go_to(*p, Phase::Unassigned);
    send(*p, out::OutOfMemory{0,
                              "so much is not free even on an empty GPU of this node (ckpt-top "
                              "shows what is)"});
  }
}

// The last one; what was granted may be under way already, so it is taken back behind the others.
bool Policy::refuse_one(Program &p) {
  Request *last = nullptr;
  for (Request &r : p.requests)
    if (!r.refused && (last == nullptr || last->granted || !r.granted)) last = &r;
  if (last != nullptr) last->refused = true;
  if (!p.wants_alone()) p.target = kNoGpu;
  return last != nullptr;
}

// All that are there hold what they have, ask for more and cannot be evicted, so nobody would ever
// go on.
bool Policy::deadlocked(GpuIndex g) const {
  const GpuAccount &account = accounting_.gpus[static_cast<size_t>(g)];
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  if (account.programs == 0 || gpu.foreign || gpu.dying || credit_returning(g)) return false;
  bool somewhere = false, all_fixed = true;
  for (const auto &p : programs_) {
    if (p->on_gpu() && !p->blocked()) {
      if (p->gpu == g) return false;
      somewhere = true;
    }
    bool fixed = p->alone() || p->refusals >= settings_.max_refusals;
    if (p->gpu != g || fixed) continue;
    // It may be asked again, or its contents find room when another one goes previous_gpu.
    if (now_ < p->not_before) return false;
    all_fixed = false;
  }
  return all_fixed || !somewhere;
}

void Policy::undo_deadlocks() {
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++)
    while (deadlocked(g)) {
      auto youngest =
          std::ranges::find_if(programs_.rbegin(), programs_.rend(),
                               [&](const auto &p) { return p->gpu == g && p->blocked(); });
      if (youngest == programs_.rend()) break;
      Program &p = **youngest;
      deny(p, *std::ranges::find(p.requests, false, &Request::granted),
           "nobody on this GPU can go on or be suspended (`ckpt-top --json` says why: "
           "cannot_be_suspended; or ckptd's --host-memory is used up)");
    }
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
//
// Who gets what has come free. Running programs that wait for more come first, then the waiting
// set: first fit in order of arrival, on any GPU (MC-13). Who has waited too long becomes the
// *elder*: a GPU is chosen for it, and what comes free there is kept for it until it fits.
#include <algorithm>
#include <tuple>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

std::string mib(u64 bytes) { return fmt::format("{} MiB", (bytes + kMiB - 1) / kMiB); }

}  // namespace

void Policy::serve() {
  if (!open_at_) open_at_ = now_ + settings_.settle;
  if (now_ < *open_at_) return;
  books_ = books();
  note_the_stuck();
  std::vector<Program *> waiting = in_order();
  // Before the waiting set, or who has just left would take again what it has left.
  serve_requests();
  serve_waiting(waiting);
  recall_all();
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

// The elder first, then by priority, then as they came.
std::vector<Program *> Policy::in_order() {
  std::vector<Program *> waiting;
  Program *elder = nullptr;
  Time limit = settings_.slice > Time{0} ? std::min(settings_.slice, settings_.age_limit)
                                         : settings_.age_limit;
  for (const auto &p : programs_) {
    if (!p->waiting()) continue;
    waiting.push_back(p.get());
    bool held_by_limit = p->phase == Phase::Held && none_assignable(*p);
    if (now_ - p->since < limit || held_by_limit) continue;
    if (elder == nullptr || p->since < elder->since) elder = p.get();
  }
  ProgramId first = elder != nullptr ? elder->id : 0;
  auto before = [first](const Program *a, const Program *b) {
    if ((a->id == first) != (b->id == first)) return a->id == first;
    return a->priority > b->priority;
  };
  if (!std::ranges::is_sorted(waiting, before)) std::ranges::stable_sort(waiting, before);
  for (Program *p : waiting)
    if (p != elder) p->claim = kNoGpu;
  if (elder == nullptr) return waiting;
  if (!elder->elder_since) elder->elder_since = now_;
  keep_for(*elder);
  return waiting;
}

void Policy::serve_waiting(const std::vector<Program *> &waiting) {
  for (Program *p : waiting) {
    if (now_ < p->not_before) continue;
    if (!suits_any(*p)) {
      send_home(*p);
      continue;
    }
    if (p->wants_alone()) clear_for(*p);
    if (!place(*p) && p->claim != kNoGpu) end_slices(*p, p->claim);
  }
}

bool Policy::suits(const Program &p, GpuIndex g) const {
  return serves(gpus_[static_cast<size_t>(g)], p.apis) && !p.unsuited.contains(g);
}

bool Policy::suits_any(const Program &p) const {
  if (p.unsuited.empty()) return kinds_[p.apis].gpus > 0;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++)
    if (suits(p, g)) return true;
  return false;
}

// MC-18: for the node, and for the GPUs that `p` can use, where those count that can use no others.
// By the first alone, programs that wait for GPUs of one kind would keep others from those of
// another.
bool Policy::none_assignable(const Program &p) const {
  if (p.wants_alone()) return false;
  size_t most = settings_.programs_per_gpu;
  if (books_.assigned >= most * gpus_.size()) return true;
  const Kind &kind = kinds_[p.apis];
  size_t there = 0;
  for (size_t apis = 0; apis < kind.within.size(); apis++)
    if (kind.within[apis]) there += books_.assigned_by[apis];
  return there >= most * kind.gpus;
}

bool Policy::may_enter(const Program &p, GpuIndex g) {
  const GpuBook &book = books_.gpus[static_cast<size_t>(g)];
  u32 most = settings_.programs_per_gpu;
  bool others = book.elder != nullptr && book.elder != &p;
  if (!suits(p, g)) return false;
  if (book.exclusive != nullptr && book.exclusive != &p) return false;
  // What its kernels will allocate is not known, so nothing of an earlier one may be in its way.
  if (p.wants_alone() && (book.programs > 0 || gpus_[static_cast<size_t>(g)].dying)) return false;
  if (book.programs + (others ? 1 : 0) >= most) return false;
  if (p.phase == Phase::Held &&
      (none_assignable(p) || book.contextless >= settings_.contextless_per_gpu))
    return false;
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  bool alone = book.programs == 0 && !gpu.foreign && !gpu.dying;
  u64 need = alone ? least_need_of(p, gpu) : need_of(p, gpu, settings_);
  return need <= book.available_to(p) && !kept_apart(p, g);
}

// To a device that is not ours to give: another Manager had it.
void Policy::send_home(Program &p) {
  go_to(p, Phase::Returning);
  for (Request &r : p.requests) r.granted = !r.refused;
  send(p, out::Migrate{});
}

// Where it has not failed to return, then where the fewest are, and of these, where most is free:
// programs that share a GPU slow each other down.
bool Policy::place(Program &p) {
  GpuIndex best = kNoGpu;
  auto book = [this](GpuIndex g) -> GpuBook & { return books_.gpus[static_cast<size_t>(g)]; };
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
    if (!may_enter(p, g)) continue;
    auto cost = [&](GpuIndex i) {
      return std::tuple(p.failures(i), book(i).programs, ~book(i).available());
    };
    bool better = best == kNoGpu || cost(g) < cost(best);
    if (better || g == p.home) best = g;
    if (g == p.home) break;
  }
  if (best == kNoGpu) return false;
  bool held = p.phase == Phase::Held;
  if (p.claim != kNoGpu) book(p.claim).elder = nullptr;
  go_to(p, held ? Phase::Placed : Phase::Returning);
  p.gpu = best;
  p.home = kNoGpu;
  company_changes(p);
  if (held) p.checks = 0;
  if (held && !p.exclusive) books_.assigned++, books_.assigned_by[p.apis]++;
  for (Request &r : p.requests) r.granted = !r.refused;
  enter(books_, p, gpu_of(p), settings_);
  if (!held) return send(p, out::Migrate{gpu_of(p).uuid}), true;
  send(p, out::Connect{gpu_of(p).uuid});
  answer_requests(p);
  return true;
}

// Its GPU stays the same while it waits, or it would run after what others have just taken.
void Policy::keep_for(Program &elder) {
  auto missing = [&](GpuIndex g) -> u64 {
    const GpuBook &book = books_.gpus[static_cast<size_t>(g)];
    u64 need = need_of(elder, gpus_[static_cast<size_t>(g)], settings_);
    u64 coming = book.available() + book.leaving;
    return need > coming ? need - coming : 0;
  };
  auto closed = [&](GpuIndex g) {
    const Program *holder = books_.gpus[static_cast<size_t>(g)].exclusive;
    return holder != nullptr && holder != &elder;
  };
  if (elder.claim == kNoGpu || closed(elder.claim) || !suits(elder, elder.claim)) {
    elder.claim = kNoGpu;
    for (GpuIndex g = 0; g < static_cast<GpuIndex>(gpus_.size()); g++) {
      const Gpu &gpu = gpus_[static_cast<size_t>(g)];
      if (!suits(elder, g) || least_need_of(elder, gpu) > gpu.total) continue;
      bool better = elder.claim == kNoGpu || closed(elder.claim) > closed(g) ||
                    (closed(elder.claim) == closed(g) && missing(g) < missing(elder.claim));
      if (better) elder.claim = g;
    }
  }
  if (elder.claim == kNoGpu) return;
  GpuBook &book = books_.gpus[static_cast<size_t>(elder.claim)];
  const Gpu &gpu = gpus_[static_cast<size_t>(elder.claim)];
  book.elder = &elder;
  book.elder_need =
      elder.wants_alone() ? gpu.total : std::min(gpu.total, need_of(elder, gpu, settings_));
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
        "a program may have {} on a GPU of this node; with what it asks for it "
        "would have {}",
        mib(settings_.program_bytes), mib(wanted));
  if (!never_fits(p)) return std::nullopt;
  return fmt::format("no GPU of this node has {} for one program", mib(wanted));
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
    if (books_.gpus[g].programs > 0 || gpus_[g].free >= need) return false;
  }
  return true;
}

void Policy::give_up_hopeless() {
  for (const auto &p : programs_) {
    if (!p->waiting() || now_ < p->not_before) continue;
    while (hopeless(*p) && refuse_one(*p)) {
    }
    if (p->phase != Phase::Held || !hopeless(*p)) continue;
    go_to(*p, Phase::New);
    send(*p, out::OutOfMemory{0, "so much is not free even on an empty GPU of this node"});
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
  const GpuBook &book = books_.gpus[static_cast<size_t>(g)];
  const Gpu &gpu = gpus_[static_cast<size_t>(g)];
  if (book.programs == 0 || gpu.foreign || gpu.dying || comes_back(g)) return false;
  bool somewhere = false, all_fixed = true;
  for (const auto &p : programs_) {
    if (p->on_gpu() && !p->blocked()) {
      if (p->gpu == g) return false;
      somewhere = true;
    }
    bool fixed = p->alone() || p->refusals >= settings_.refusals;
    if (p->gpu != g || fixed) continue;
    // It may be asked again, or its contents find room when another one goes home.
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
           "nobody on this GPU can go on or be suspended");
    }
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/admission/denial.h"

#include <algorithm>

#include "common/base/units.h"

namespace ckpt::manager {

namespace out = managed::to_program;

std::optional<std::string> Denial::over_limit(const Program &p) const {
  u64 limit = state_.settings.program_bytes, wanted = p.used + p.variables + p.requested();
  if (limit != 0 && wanted > limit)
    return fmt::format(
        "a program may use {} of GPU memory on this node (ckptd --program-memory), and this "
        "request would bring it to {}",
        mebibytes(limit), mebibytes_needed(wanted));
  if (!placement_.never_fits(p)) return std::nullopt;
  return fmt::format(
      "no GPU of this node has {} for one program (ckpt-top shows the memory of each GPU)",
      mebibytes_needed(wanted));
}

void Denial::deny(Program &p, u32 ticket, const std::string &why) {
  state_.send(p, out::OutOfMemory{ticket, why});
  std::erase_if(p.requests, [&](const Request &q) { return q.ticket == ticket; });
  if (!p.wants_alone()) p.cleared_gpu = kNoGpu;
}

// ---- what does not fit on an empty GPU

bool Denial::hopeless(const Program &p) const {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++) {
    const Gpu &gpu = state_.gpu(g);
    const GpuAccount &account = state_.account(g);
    if (!placement_.suits(p, g) || least_need_of(p, gpu) > gpu.total) continue;
    if (gpu.foreign || gpu.dying || account.stayers > 0) return false;
    if (account.programs > 0 || gpu.free >= least_need_of(p, gpu)) return false;
  }
  return true;
}

void Denial::deny_hopeless() {
  for (const auto &p : state_.programs) {
    if (!p->waiting() || state_.now < p->retry_at) continue;
    while (hopeless(*p) && refuse_last(*p)) {
    }
    if (!p->is(Phase::Pending) || !hopeless(*p)) continue;
    state_.enter(*p, Unassigned{});
    state_.send(*p, out::OutOfMemory{0,
                                     "even an empty GPU of this node has too little free memory "
                                     "(ckpt-top shows the free memory of each GPU)"});
  }
}

// A granted request may be under way already, so it is refused only after all others.
bool Denial::refuse_last(Program &p) {
  Request *last = nullptr;
  for (Request &r : p.requests)
    if (!r.refused && (last == nullptr || last->granted || !r.granted)) last = &r;
  if (last != nullptr) last->refused = true;
  if (!p.wants_alone()) p.cleared_gpu = kNoGpu;
  return last != nullptr;
}

// ---- deadlocks

bool Denial::deadlocked(GpuIndex g) const {
  const Gpu &gpu = state_.gpu(g);
  const GpuAccount &account = state_.account(g);
  if (account.programs == 0 || gpu.foreign || gpu.dying || credits_.returning(g)) return false;
  if (account.deepening > 0 || account.staying > 0) return false;
  bool others_run = false, all_fixed = true;
  for (const auto &p : state_.programs) {
    if (p->on_gpu() && !p->blocked()) {
      if (p->gpu() == g) return false;
      others_run = true;
    }
    bool fixed = p->alone() || p->refusals >= state_.settings.max_refusals;
    if (p->gpu() != g || fixed) continue;
    // It may be asked again, or there may be room for its contents when another one resumes.
    if (state_.now < p->retry_at) return false;
    all_fixed = false;
  }
  return all_fixed || !others_run;
}

void Denial::break_deadlocks() {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    while (deadlocked(g)) {
      auto last =
          std::ranges::find_if(state_.programs.rbegin(), state_.programs.rend(),
                               [&](const auto &p) { return p->gpu() == g && p->blocked(); });
      if (last == state_.programs.rend()) break;
      Program &p = **last;
      deny(p, std::ranges::find(p.requests, false, &Request::granted)->ticket,
           "all programs of this GPU wait for memory, and none of them can be suspended "
           "(`ckpt-top --json` shows the reasons as cannot_be_suspended; or the --host-memory of "
           "ckptd is full)");
    }
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
//
// How a program of a random history leaves its GPU, at either depth, and resumes.
#include "tests/unit/manager/random_history.h"

namespace ckpt::manager {

namespace in = managed::to_manager;

in::Uses History::uses(const Sim &s) {
  return {s.apis | (s.knows_depths ? managed::kKnowsDepths : 0)};
}

void History::suspended(Sim &s, bool memory_only) {
  if (memory_only && !s.knows_depths) broken("a program was sent what it does not know");
  if (s.fixed || s.starting || s.at == At::Suspended)
    return s.sent.push_back(in::Failed{"it cannot"});
  if (s.exclusive) broken("an exclusive program was told to leave");
  evictions_++;
  // Only CUDA has two depths.
  bool stays = memory_only && s.apis != managed::kOpenCl && s.gpu != kNoGpu;
  if (stays)
    leave_context(s);
  else
    give_all(s);
  for (auto &[ticket, ask] : s.asks) ask.before_eviction = ask.granted;
  s.credit = s.spare = 0;
  if (s.said != s.used) s.sent.push_back(in::CudaFree{s.said = s.used});
  s.at = At::Suspended;
  s.checked = true;
  if (!memory_only) return s.sent.push_back(in::SuspendDone{s.used});
  s.sent.push_back(in::Evicted{s.used, stays ? std::to_string(s.stays_on) : ""});
}

void History::leave_context(Sim &s) {
  stays_++;
  s.held -= s.used;
  free_[static_cast<size_t>(s.gpu)] += s.used;
  s.stays_on = std::exchange(s.gpu, kNoGpu);
}

void History::deepened(Sim &s) {
  if (s.at != At::Suspended) return broken("a program that runs was to give back what stays");
  if (one_in(10) && s.refusals++ < 2) return s.sent.push_back(in::Failed{"it cannot"});
  s.refusals = 0;
  deepenings_++;
  give_all(s);
  s.sent.push_back(in::Evicted{s.used, ""});
}

void History::migrated(Sim &s, GpuIndex gpu) {
  if (s.at != At::Suspended) return broken("a program was resumed that was not evicted");
  if (gpu != kNoGpu && !served(s, gpu))
    return broken("a program resumed on a GPU that does not serve it");
  if (s.refused.contains(gpu)) return broken("a program resumed on a GPU that is unsuited");
  if (s.picky && gpu != s.first) {
    s.refused.insert(gpu);
    return s.sent.push_back(in::Unsuited{std::to_string(gpu), "it is picky"});
  }
  u64 context = context_on(gpu);
  bool moves = s.stays_on != kNoGpu && s.stays_on != gpu;
  if (moves) {
    give_all(s);
    s.sent.push_back(in::Evicted{s.used, ""});
  }
  bool too_small = never_had(gpu, context + s.variables + s.used);
  if (too_small || one_in(50)) return s.sent.push_back(in::Failed{"not this time"});
  s.gpu = gpu;
  bool there = std::exchange(s.stays_on, kNoGpu) != kNoGpu;
  take(s, there ? s.used : context + s.variables + s.used);
  s.at = At::Running;
  s.sent.push_back(in::MigDone{s.used});
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/accounting/accounting.h"

#include <algorithm>

namespace ckpt::manager {

const char *name_of(Phase phase) {
  switch (phase) {
    case Phase::Unassigned: return "unassigned";
    case Phase::Pending: return "pending";
    case Phase::Assigned: return "running";
    case Phase::Evicting: return "evicting";
    case Phase::Evicted: return "evicted";
    case Phase::Resuming: return "resuming";
  }
  return "?";
}

u64 Program::requested() const {
  u64 sum = 0;
  for (const Request &r : requests)
    if (!r.refused) sum += r.bytes;
  return sum;
}

u64 Program::granted() const {
  u64 sum = 0;
  for (const Request &r : requests)
    if (r.granted) sum += r.bytes;
  return sum;
}

bool Program::blocked() const {
  if (phase != Phase::Assigned || gpu == kNoGpu) return false;
  for (const Request &r : requests)
    if (!r.granted) return true;
  return false;
}

bool Program::alone() const {
  auto granted = [](const Request &r) { return r.alone && r.granted && !r.refused; };
  return exclusive || std::ranges::any_of(requests, granted);
}

bool Program::wants_alone() const {
  auto asked = [](const Request &r) { return r.alone && !r.refused; };
  return exclusive || std::ranges::any_of(requests, asked);
}

u64 context_cost(const Gpu &gpu, const Settings &settings) {
  bool measured = gpu.context_known || gpu.context_bytes > 0;
  return measured ? gpu.context_bytes : settings.context_bytes;
}

u64 least_need_of(const Program &p, const Gpu &gpu) {
  return (gpu.context_known ? gpu.context_bytes : 0) + p.variables + p.used + p.requested();
}

u64 asked_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return context_cost(gpu, settings) + p.variables + p.used + p.requested();
}

u64 need_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return std::max(asked_of(p, gpu, settings), context_cost(gpu, settings) + p.expected);
}

u64 expected_of(const Program &p) {
  u64 promised = p.variables + p.used + p.granted() + p.credit;
  return p.expected > promised ? p.expected - promised : 0;
}

// A request beside those that were granted holds no memory: its program waits for it.
u64 reserved_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  u64 context = p.context ? 0 : context_cost(gpu, settings);
  u64 variables = p.variables_seen ? 0 : p.variables;
  switch (p.phase) {
    case Phase::Assigned:
    case Phase::Evicting: return context + variables + p.granted() + p.credit;
    case Phase::Resuming: return need_of(p, gpu, settings);
    default: return 0;
  }
}

u64 held_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  if (p.phase == Phase::Resuming) return 0;
  u64 context = p.context ? context_cost(gpu, settings) : 0;
  return context + p.used + (p.variables_seen ? p.variables : 0);
}

u64 footprint_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return held_by(p, gpu, settings) + reserved_by(p, gpu, settings);
}

void enter(Accounting &accounting, const Program &p, const Gpu &gpu, const Settings &settings) {
  GpuAccount &g = accounting.gpus[static_cast<size_t>(p.gpu)];
  g.programs++;
  if (p.profile != kNoProfile && std::ranges::find(g.profiles, p.profile) == g.profiles.end())
    g.profiles.push_back(p.profile);
  g.reserved += reserved_by(p, gpu, settings);
  g.load.add(p.demand);
  if (p.phase == Phase::Assigned) g.expected += expected_of(p);
  if (p.phase != Phase::Resuming && !p.context) g.contextless++;
  if (p.phase == Phase::Evicting && !p.stuck) {
    g.leavers++;
    g.leaving += footprint_of(p, gpu, settings);
  }
  if (p.alone()) g.exclusive = &p;
}

Accounting make_accounting(const std::vector<Gpu> &gpus, const Programs &programs,
                           const Settings &settings) {
  Accounting accounting;
  accounting.gpus.resize(gpus.size());
  for (size_t i = 0; i < gpus.size(); i++) accounting.gpus[i].free = gpus[i].free;
  for (const auto &p : programs) {
    bool unmanaged = p->on_gpu() && p->gpu == kNoGpu;
    bool counts = !p->exclusive || p->late;
    if (p->phase != Phase::Unassigned && p->phase != Phase::Pending && counts && !unmanaged)
      accounting.assigned++, accounting.assigned_by[p->apis]++;
    if (p->kept > 0) (p->on_disk ? accounting.disk_kept : accounting.host_kept) += p->kept;
    if (p->on_gpu() && !unmanaged) {
      const Gpu &gpu = gpus[static_cast<size_t>(p->gpu)];
      enter(accounting, *p, gpu, settings);
      u64 &free = accounting.gpus[static_cast<size_t>(p->gpu)].free;
      if (!gpu.measured) free -= std::min(free, held_by(*p, gpu, settings));
    }
  }
  // Who has a GPU for itself keeps it, whatever another one had hoped for.
  for (const auto &p : programs) {
    if (p->target == kNoGpu) continue;
    GpuAccount &g = accounting.gpus[static_cast<size_t>(p->target)];
    if (g.exclusive == nullptr) g.exclusive = p.get();
  }
  return accounting;
}

}  // namespace ckpt::manager

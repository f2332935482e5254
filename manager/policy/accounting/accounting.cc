// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/accounting/accounting.h"

#include <algorithm>

namespace ckpt::manager {

u64 expected_of(const Program &p) {
  u64 promised = p.variables + p.used + p.granted() + p.credit();
  return p.workload.expected > promised ? p.workload.expected - promised : 0;
}

// Only granted requests hold memory: a program waits for the others.
u64 reserved_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  if (p.is(Phase::Resuming)) return need_of(p, gpu, settings);
  const Residence *r = p.residence();
  if (r == nullptr) return 0;
  u64 context = r->context ? 0 : context_cost(gpu, settings);
  u64 variables = p.variables_seen ? 0 : p.variables;
  return context + variables + p.granted() + r->credit.bytes;
}

u64 held_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  if (p.is(Phase::Resuming)) return 0;
  u64 context = p.context() ? context_cost(gpu, settings) : 0;
  return context + p.used + (p.variables_seen ? p.variables : 0);
}

u64 footprint_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return held_by(p, gpu, settings) + reserved_by(p, gpu, settings);
}

void Accounting::add(const Program &p, const Gpu &gpu, const Settings &settings) {
  GpuAccount &g = gpus[static_cast<size_t>(p.gpu())];
  const Residence *residence = p.residence();
  ProfileIndex profile = p.workload.profile;
  g.programs++;
  if (profile != kNoProfile && std::ranges::find(g.profiles, profile) == g.profiles.end())
    g.profiles.push_back(profile);
  g.reserved += reserved_by(p, gpu, settings);
  g.load.add(p.workload.demand);
  if (p.is(Phase::Assigned)) g.expected += expected_of(p);
  if (residence != nullptr && !residence->context) g.contextless++;
  if (p.is(Phase::Evicting) && !p.unresponsive()) {
    g.leaving++;
    g.freeing += footprint_of(p, gpu, settings);
  }
  if (p.alone()) g.exclusive = &p;
}

void Accounting::add_assignment(const Program &p) {
  assigned++;
  assigned_by[p.apis]++;
}

void Accounting::keep(const Contents &contents) {
  (contents.on_disk ? disk_kept : host_kept) += contents.bytes;
}

Accounting::Accounting(const std::vector<Gpu> &all, const Programs &programs,
                       const Settings &settings)
    : gpus(all.size()) {
  for (size_t i = 0; i < gpus.size(); i++) gpus[i].free = all[i].free;
  for (const auto &p : programs) {
    bool unmanaged = p->on_gpu() && p->gpu() == kNoGpu;
    bool holds = !p->is(Phase::Unassigned) && !p->is(Phase::Pending) && !unmanaged;
    if (holds && (!p->exclusive || p->late)) add_assignment(*p);
    keep(p->contents());
    if (!p->on_gpu() || unmanaged) continue;
    const Gpu &gpu = all[static_cast<size_t>(p->gpu())];
    add(*p, gpu, settings);
    u64 &free = gpus[static_cast<size_t>(p->gpu())].free;
    if (!gpu.measured) free -= std::min(free, held_by(*p, gpu, settings));
  }
  // A program that has a GPU for itself keeps it, even if another wanted it cleared.
  for (const auto &p : programs) {
    if (p->cleared_gpu == kNoGpu) continue;
    GpuAccount &g = gpus[static_cast<size_t>(p->cleared_gpu)];
    if (g.exclusive == nullptr) g.exclusive = p.get();
  }
}

}  // namespace ckpt::manager

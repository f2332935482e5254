// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/accounting/accounting.h"

#include <algorithm>

namespace ckpt::manager {

u64 expected_of(const Program &p) {
  u64 promised = p.variables + p.used + p.granted() + p.credit();
  return p.workload.expected > promised ? p.workload.expected - promised : 0;
}

u64 GpuAccount::staying_beside(const Program &p) const {
  const Stay *own = p.stay();
  bool counted =
      own != nullptr && own->gpu == index && p.is(Phase::Evicted) && !own->deepening && !own->fixed;
  return staying - (counted ? own->bytes : 0);
}

u32 GpuAccount::stayers_beside(const Program &p) const {
  return stayers - (p.stay() != nullptr && p.stay()->gpu == index ? 1 : 0);
}

namespace {

// On the GPU where its context is, and the variables that were seen.
u64 asked_to_return(const Program &p) {
  return p.used + p.requested() + (p.variables_seen ? 0 : p.variables);
}

u64 expected_to_return(const Program &p) {
  u64 there = p.variables_seen ? p.variables : 0;
  return p.workload.expected > there ? p.workload.expected - there : 0;
}

}  // namespace

u64 least_room_of(const Program &p, const Gpu &gpu) {
  return p.stays_on(gpu.index) ? asked_to_return(p) : least_need_of(p, gpu);
}

u64 asked_room_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return p.stays_on(gpu.index) ? asked_to_return(p) : asked_of(p, gpu, settings);
}

u64 room_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  if (!p.stays_on(gpu.index)) return need_of(p, gpu, settings);
  return std::max(asked_to_return(p), expected_to_return(p));
}

// Only granted requests hold memory: a program waits for the others.
u64 reserved_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  if (p.is(Phase::Resuming)) return room_of(p, gpu, settings);
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

u64 stay_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  u64 context = p.context() ? context_cost(gpu, settings) : 0;
  return context + (p.variables_seen ? p.variables : 0);
}

u64 freed_by(const Program &p, const Gpu &gpu, const Settings &settings) {
  u64 whole = footprint_of(p, gpu, settings);
  auto *e = std::get_if<Evicting>(&p.state);
  return whole - (e != nullptr && e->memory_only ? stay_of(p, gpu, settings) : 0);
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
    g.freeing += freed_by(p, gpu, settings);
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

// A program that resumes on another GPU gives its stay back first.
void Accounting::add_stay(const Program &p, const std::vector<Gpu> &all) {
  const Stay &stay = *p.stay();
  GpuAccount &g = gpus[static_cast<size_t>(stay.gpu)];
  if (!all[static_cast<size_t>(stay.gpu)].measured) g.free -= std::min(g.free, stay.bytes);
  if (p.is(Phase::Resuming) && p.gpu() == stay.gpu) return;
  g.stayers++;
  if (stay.fixed) return;
  bool leaves = stay.deepening || p.is(Phase::Resuming);
  if (leaves) g.deepening++;
  (leaves ? g.freeing : g.staying) += stay.bytes;
}

Accounting::Accounting(const std::vector<Gpu> &all, const Programs &programs,
                       const Settings &settings)
    : gpus(all.size()) {
  for (size_t i = 0; i < gpus.size(); i++) {
    gpus[i].index = static_cast<GpuIndex>(i);
    gpus[i].free = all[i].free;
  }
  for (const auto &p : programs) {
    bool unmanaged = p->on_gpu() && p->gpu() == kNoGpu;
    bool holds = !p->is(Phase::Unassigned) && !p->is(Phase::Pending) && !unmanaged;
    if (holds && (!p->exclusive || p->late)) add_assignment(*p);
    keep(p->contents());
    if (p->stay() != nullptr) add_stay(*p, all);
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

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/arriving_contents.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt-ocl/client/lifecycle/owed_contents.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {
namespace {

// Images are moved by the driver's own layout, and memory of the program's own is there already.
bool can_arrive(const Mem &m) { return !m.parent && !m.image && !m.svm && !m.block && !m.host_ptr; }

std::unordered_map<std::string, Mem *> roots_by_region() {
  std::unordered_map<std::string, Mem *> all;
  for (Mem *m : registry().all<Mem>())
    if (can_arrive(*m)) all.emplace(region_name(*m), m);
  return all;
}

// Sub-buffers, and images over the buffer: a command may name them instead.
std::unordered_map<const Mem *, std::vector<u64>> others_by_root() {
  std::unordered_map<const Mem *, std::vector<u64>> all;
  for (Mem *m : registry().all<Mem>())
    if (m->parent) all[m->root()].push_back(m->number);
  return all;
}

cl_int announce(const Mem &m, const std::vector<u64> &others) {
  Writer w;
  w.put(m.number).put(u64{m.size}).put(static_cast<u32>(others.size()));
  for (u64 number : others) w.put(number);
  return link().send(Op::ArrivesLater, 0, w.bytes());
}

}  // namespace

std::vector<bool> load_later(std::span<const agent::LaterRegion> regions, int tool) {
  if (link().compiles_elsewhere()) return {};
  std::unordered_map<std::string, Mem *> roots = roots_by_region();
  std::unordered_map<const Mem *, std::vector<u64>> others = others_by_root();
  std::vector<bool> taken(regions.size());
  std::vector<Mem *> sharing;
  for (size_t i = 0; i < regions.size(); i++) {
    auto found = roots.find(regions[i].name);
    if (found == roots.end() || found->second->size != regions[i].bytes) continue;
    if (announce(*found->second, others[found->second]) != CL_SUCCESS) return {};
    taken[i] = true;
    if (found->second->shared) sharing.push_back(found->second);
  }
  if (std::ranges::find(taken, true) == taken.end()) return {};
  if (link().round_trip(Op::ArrivalBegin, {}, tool) != CL_SUCCESS) return {};
  for (Mem *m : sharing) m->arrives = true;
  return taken;
}

void forget_arrivals() {
  for (Mem *m : registry().all<Mem>()) m->arrives = false;
}

}  // namespace ckpt::ocl

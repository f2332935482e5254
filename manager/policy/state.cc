// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/state.h"

#include <algorithm>

#include "common/base/gpu.h"

namespace ckpt::manager {

State::State(Settings s, std::vector<Gpu> g) : settings(std::move(s)), gpus(std::move(g)) {
  for (Gpu &gpu : gpus) {
    gpu.index = static_cast<GpuIndex>(&gpu - gpus.data());
    if (gpu.measured) continue;
    gpu.context_known = true;
    gpu.context_bytes = 0;
  }
  count();
}

GpuIndex State::gpu_named(const std::string &uuid) const {
  auto it =
      std::ranges::find(gpus, plain_uuid(uuid), [](const Gpu &g) { return plain_uuid(g.uuid); });
  return it == gpus.end() ? kNoGpu : static_cast<GpuIndex>(it - gpus.begin());
}

bool State::any_waits() const {
  return std::ranges::any_of(programs, [](const auto &p) {
    return p->waiting() || p->is(Phase::Evicting) || p->blocked();
  });
}

void State::leave_phase(Program &p) {
  occupancy_changes(p);
  if (p.is(Phase::Assigned)) p.workload.residency += now - p.since;
}

void State::enter_phase(Program &p) {
  occupancy_changes(p);
  p.since = now;
  if (p.is(Phase::Assigned) || p.is(Phase::Resuming)) p.cleared_gpu = kNoGpu;
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan/policy.h"

#include <strings.h>

#include <algorithm>

#include "schedule/plan/planner.h"

namespace ckpt::schedule {
namespace {

constexpr std::string_view kNames[] = {"MCT", "MCTB", "MCTM", "MCTBM", "WMCT"};

}  // namespace

std::optional<PolicyName> policy_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); i++)
    if (name.size() == kNames[i].size() &&
        ::strncasecmp(name.data(), kNames[i].data(), name.size()) == 0)
      return static_cast<PolicyName>(i);
  return {};
}

std::string_view name_of(PolicyName p) { return kNames[static_cast<size_t>(p)]; }

MoveCost real_cost(const Job &job, const ResourceClass &c) {
  return {ticks_of(c.costs.checkpoint_seconds(job.megabytes, job.wait_seconds)),
          ticks_of(c.costs.restore_seconds(job.megabytes, job.compile_seconds))};
}

MoveCost Policy::planned_cost(const Job &job, const ResourceClass &c) const {
  MoveCost real = real_cost(job, c);
  auto over = [&](Ticks t) {
    return static_cast<Ticks>(std::ceil(static_cast<double>(t) * options_.overestimate));
  };
  return {over(real.checkpoint), over(real.restore)};
}

Plan Policy::plan(const Workload &w, size_t job, Ticks now, const Cluster &cluster) const {
  std::vector<MoveCost> costs;
  for (const ClassState &c : cluster.classes) costs.push_back(planned_cost(w.jobs[job], c.of));
  PolicyOptions readings = options_;
  if (name_ == PolicyName::Wmct) readings = {.charge = Charge::Exact};
  Planner planner(w, job, now, cluster, costs, readings);
  std::optional<WholeRun> start = planner.earliest_completion();
  if (!start) return {};
  switch (name_) {
    case PolicyName::Mct: return planner.whole(*start);
    case PolicyName::Mctb:
      return planner.with_idle_pieces(*start, {.holes = true, .other_classes = false});
    case PolicyName::Mctm:
      return planner.with_idle_pieces(*start, {.holes = false, .other_classes = true});
    case PolicyName::Mctbm:
      return planner.with_idle_pieces(*start, {.holes = true, .other_classes = true});
    case PolicyName::Wmct: return planner.least_wasteful(*start, options_.waste_weight);
  }
  return {};
}

}  // namespace ckpt::schedule

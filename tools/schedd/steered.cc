// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/steered.h"

#include <algorithm>

namespace ckpt::tools {
namespace {

// Slurm starts a job that got free nodes within this time, unless something prevents it.
constexpr i64 kStartSeconds = 60;

}  // namespace

bool is_running(const QueuedJob &j) { return j.state == "RUNNING"; }

bool is_waiting(const QueuedJob &j) {
  return j.state == "PENDING" || j.state == "SPECIAL_EXIT" || j.state == "REQUEUE_HOLD" ||
         j.state == "REQUEUED";
}

bool Steered::is_placed(i64 now) const {
  return is_waiting(job) && record.placed && !record.leaving && !record.nodes.empty() &&
         std::ranges::is_permutation(job.required, record.nodes) &&
         now < *record.placed + kStartSeconds;
}

bool Steered::start_has_failed(i64 now) const {
  return !record.leaving && record.placed && now >= *record.placed + kStartSeconds;
}

bool Steered::is_blocked() const {
  auto says = [&](std::string_view part) { return job.reason.find(part) != job.reason.npos; };
  return job.held || says("Held") || says("Dependency") || says("Limit") || says("Licenses") ||
         says("BadConstraints") || says("InvalidAccount") || says("InvalidQOS");
}

Steered &steered_job(u64 job, std::vector<Steered> &steered) {
  return *std::ranges::lower_bound(steered, job, {}, [](const Steered &s) { return s.job.id; });
}

}  // namespace ckpt::tools

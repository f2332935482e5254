// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/trace/lines.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

bool may_run_on(const TraceJob &job, const std::string &name) {
  if (job.kinds.empty()) return true;
  std::vector<std::string_view> kinds = columns_of(job.kinds, '|');
  return std::find(kinds.begin(), kinds.end(), name) != kinds.end();
}

}  // namespace

Workload workload_of(Trace trace, const std::vector<ResourceClass> &classes,
                     const std::vector<double> &speeds) {
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob &a, const TraceJob &b) { return a.submit < b.submit; });
  Workload w{static_cast<unsigned>(classes.size()), {}, {}};
  double first = trace.jobs.empty() ? 0 : trace.jobs[0].submit;
  for (const TraceJob &t : trace.jobs) {
    Job job;
    job.submit = ticks_of(t.submit - first);
    job.nodes = t.nodes;
    job.megabytes = static_cast<float>(t.megabytes);
    w.jobs.push_back(job);
    for (size_t c = 0; c < classes.size(); c++)
      w.run.push_back(
          may_run_on(t, classes[c].name) ? std::max<Ticks>(1, ticks_of(t.seconds / speeds[c])) : 0);
  }
  return w;
}

}  // namespace ckpt::schedule

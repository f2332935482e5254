// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: logs of clusters, as ckpt-sim reads them. A short log that is accepted is simulated:
// no log may make the planner use a node twice.
#include <cmath>
#include <cstdlib>

#include "schedule/simulate/simulation.h"
#include "schedule/trace/trace.h"

namespace {

using namespace ckpt;
using namespace ckpt::schedule;

constexpr size_t kMostJobs = 12;

std::vector<ResourceClass> classes() {
  Line half{1, 0};
  return {{"fast", 32, {half, half}}, {"V100M16", 8, {half, half}}};
}

void run(Trace trace, PolicyName policy) {
  if (trace.jobs.size() > kMostJobs) trace.jobs.resize(kMostJobs);
  for (const TraceJob &j : trace.jobs)
    if (!std::isfinite(j.submit) || !std::isfinite(j.seconds) || j.nodes == 0) std::abort();
  Workload w = workload_of(std::move(trace), classes(), {1, 0.2});
  if (!simulate(w, classes(), policy, {})) std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  if (size == 0) return 0;
  std::string_view log = text(view(data + 1, size - 1));
  auto policy = static_cast<PolicyName>(data[0] / 5 % 5);
  Result<Trace> trace;
  switch (data[0] % 5) {
    case 0: trace = read_swf(log, {}); break;
    case 1: trace = read_gavel(log, {}); break;
    case 2: trace = read_pods(log, {}); break;
    case 3: (void)read_gpu_nodes(log); return 0;
    case 4: trace = read_jobs_csv(log, {}); break;
  }
  if (trace) run(std::move(*trace), policy);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/trace/csv.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
Result<Trace> read_pods(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_row(text, [&](size_t number, const CsvRow &row) -> Result<> {
    CKPT_TRY(std::optional<double> gpus, row.number("num_gpu"));
    CKPT_TRY(std::optional<double> created, row.number("creation_time"));
    CKPT_TRY(std::optional<double> started, row.number("scheduled_time"));
    CKPT_TRY(std::optional<double> ended, row.number("deletion_time"));
    CKPT_TRY(std::string_view models, row.text("gpu_spec"));
    if (!gpus || *gpus < 1 || !created || *created < 0 || !started || !ended ||
        *ended <= *started) {
      trace.left_out++;
      return {};
    }
    if (!is_whole(*gpus)) return fail("line {}: {} GPUs", number, *gpus);
    if (*gpus > kMostNodes || *ended > kMostSeconds)
      return fail("line {}: the pod is larger or longer than any cluster's", number);
    auto nodes = static_cast<unsigned>(*gpus);
    trace.jobs.push_back(
        {*created, *ended - *started, nodes, o.megabytes_per_node * nodes, std::string(models)});
    return {};
  }));
  return trace;
}

Result<std::vector<ResourceClass>> read_gpu_nodes(std::string_view text) {
  std::vector<ResourceClass> classes;
  CKPT_CHECK(for_each_row(text, [&](size_t number, const CsvRow &row) -> Result<> {
    CKPT_TRY(std::optional<double> gpus, row.number("gpu"));
    CKPT_TRY(std::string_view model, row.text("model"));
    if (!gpus || *gpus < 1) return {};
    auto at = std::find_if(classes.begin(), classes.end(),
                           [&](const ResourceClass &c) { return c.name == model; });
    if (at == classes.end()) at = classes.insert(at, {std::string(model), 0, {}});
    if (*gpus + at->nodes > kMostNodes)
      return fail("line {}: more GPUs than any cluster has", number);
    at->nodes += static_cast<unsigned>(*gpus);
    return {};
  }));
  if (classes.empty()) return fail("no node has a GPU");
  return classes;
}

}  // namespace ckpt::schedule

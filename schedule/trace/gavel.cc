// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/trace/lines.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

struct Layout {
  size_t columns, steps, gpus, arrival;
};

// The first column is the model, then come its command line and others. Traces of the published
// simulator have 10 columns, those of its extensions with a mode of training 11, and early ones 7.
constexpr Layout kLayouts[] = {{7, 4, 6, 5}, {10, 5, 6, 9}, {11, 5, 6, 10}};

const Layout *layout_of(size_t columns) {
  const Layout *at = std::ranges::find(kLayouts, columns, &Layout::columns);
  return at == std::end(kLayouts) ? nullptr : at;
}

}  // namespace

Result<Trace> read_gavel(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_line(text, [&](size_t number, std::string_view line) -> Result<> {
    std::vector<std::string_view> columns = columns_of(line, '\t');
    const Layout *at = layout_of(columns.size());
    if (!at)
      return fail("line {}: {} columns instead of 7, 10 or 11, separated by tabs", number,
                  columns.size());
    std::optional<double> steps = number_in(columns[at->steps]),
                          arrival = number_in(columns[at->arrival]),
                          gpus = number_in(columns[at->gpus]);
    if (gpus && !is_whole(*gpus)) return fail("line {}: {} GPUs", number, *gpus);
    if (!steps || !arrival || !gpus)
      return fail("line {}: steps, arrival or GPUs are not a number", number);
    double seconds = *steps * o.seconds_per_step;
    if (*gpus > kMostNodes || seconds > kMostSeconds || *arrival > kMostSeconds)
      return fail("line {}: the job is larger or longer than any cluster's", number);
    if (*gpus < 1 || seconds <= 0 || *arrival < 0) {
      trace.left_out++;
      return {};
    }
    auto nodes = static_cast<unsigned>(*gpus);
    trace.jobs.push_back({*arrival, seconds, nodes, o.megabytes_per_node * nodes, {}});
    return {};
  }));
  return trace;
}

}  // namespace ckpt::schedule

// SPDX-License-Identifier: Apache-2.0
#include "schedule/trace/lines.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

enum Column { Model, Command, StepsOption, NeedsData, Steps, Arrival, Gpus };
constexpr size_t kColumns = 7;

}  // namespace

Result<Trace> read_gavel(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_line(text, [&](size_t number, std::string_view line) -> Result<> {
    std::vector<std::string_view> columns = columns_of(line, '\t');
    if (columns.size() != kColumns)
      return fail("line {}: {} columns instead of {}, separated by tabs", number, columns.size(),
                  kColumns);
    std::optional<double> steps = number_in(columns[Steps]), arrival = number_in(columns[Arrival]),
                          gpus = number_in(columns[Gpus]);
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

// SPDX-License-Identifier: Apache-2.0
#include "schedule/trace/csv.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

// The value of a column that may be missing, or empty.
Result<double> number_or(const CsvRow &row, std::string_view name, double otherwise) {
  if (!row.has(name)) return otherwise;
  CKPT_TRY(std::optional<double> value, row.number(name));
  return value.value_or(otherwise);
}

}  // namespace

Result<Trace> read_jobs_csv(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_row(text, [&](size_t number, const CsvRow &row) -> Result<> {
    CKPT_TRY(std::optional<double> submit, row.number("submit"));
    CKPT_TRY(std::optional<double> seconds, row.number("seconds"));
    CKPT_TRY(double nodes, number_or(row, "nodes", 1));
    CKPT_TRY(double megabytes, number_or(row, "megabytes", o.megabytes_per_node * nodes));
    std::string_view classes;
    if (row.has("classes")) {
      CKPT_TRY(classes, row.text("classes"));
    }
    if (submit.value_or(0) < 0 || seconds.value_or(0) < 0 || nodes < 0 || megabytes < 0)
      return fail("line {}: a value is negative", number);
    if (!submit || !seconds || *seconds == 0 || nodes < 1) {
      trace.left_out++;
      return {};
    }
    if (!is_whole(nodes)) return fail("line {}: {} nodes", number, nodes);
    if (nodes > kMostNodes || *seconds > kMostSeconds || *submit > kMostSeconds ||
        megabytes > kMostMegabytes)
      return fail("line {}: the job is larger or longer than any cluster's", number);
    trace.jobs.push_back(
        {*submit, *seconds, static_cast<unsigned>(nodes), megabytes, std::string(classes)});
    return {};
  }));
  return trace;
}

}  // namespace ckpt::schedule

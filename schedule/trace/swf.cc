// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "schedule/trace/lines.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

// Columns of the format, counted from 0. -1 stands for an unknown value.
enum SwfColumn {
  Submit = 1,
  Run = 3,
  Used = 4,
  UsedMemory = 6,
  Requested = 7,
  RequestedMemory = 9
};
constexpr size_t kSwfColumns = 18;

double megabytes_in(double column, unsigned nodes, const TraceOptions &o) {
  return o.memory_in_bytes ? column / 1e6 : column * 1024 * nodes / 1e6;
}

}  // namespace

Result<Trace> read_swf(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_line(text, [&](size_t number, std::string_view line) -> Result<> {
    if (line.starts_with(';')) return {};
    std::vector<std::string_view> columns = columns_of(line, ' ');
    if (columns.empty()) return {};
    if (columns.size() < kSwfColumns)
      return fail("line {}: {} columns instead of {}", number, columns.size(), kSwfColumns);
    std::array<double, kSwfColumns> value{};
    for (SwfColumn c : {Submit, Run, Used, UsedMemory, Requested, RequestedMemory}) {
      std::optional<double> v = number_in(columns[c]);
      if (!v) return fail("line {}: column {} is not a number", number, static_cast<int>(c) + 1);
      value[c] = *v;
    }
    double nodes = value[Used] > 0 ? value[Used] : value[Requested];
    if (nodes < 1 || value[Run] <= 0 || value[Submit] < 0) {
      trace.left_out++;
      return {};
    }
    if (!is_whole(nodes)) return fail("line {}: {} processors", number, nodes);
    if (nodes > kMostNodes || value[Run] > kMostSeconds || value[Submit] > kMostSeconds)
      return fail("line {}: the job is larger or longer than any cluster's", number);
    TraceJob job{value[Submit], value[Run], static_cast<unsigned>(nodes), 0, {}};
    double memory = value[RequestedMemory] > 0 ? value[RequestedMemory] : value[UsedMemory];
    job.megabytes = memory > 0 ? std::min(megabytes_in(memory, job.nodes, o), kMostMegabytes)
                               : o.megabytes_per_node * job.nodes;
    trace.jobs.push_back(std::move(job));
    return {};
  }));
  return trace;
}

}  // namespace ckpt::schedule

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/trace/lines.h"
#include "schedule/trace/trace.h"

namespace ckpt::schedule {
namespace {

// Lines of comma-separated values under a header. None of these files quotes a value.
class Table {
 public:
  Result<> set_header(std::string_view line) {
    names_ = columns_of(line, ',');
    return {};
  }
  bool has_header() const { return !names_.empty(); }
  Result<> set_row(size_t number, std::string_view line) {
    number_ = number;
    row_ = columns_of(line, ',');
    if (row_.size() != names_.size())
      return fail("line {}: {} columns instead of {}", number, row_.size(), names_.size());
    return {};
  }
  Result<std::string_view> text(std::string_view name) const {
    auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) return fail("line 1: there is no column {}", name);
    return row_[static_cast<size_t>(at - names_.begin())];
  }
  // Empty if the column is.
  Result<std::optional<double>> number(std::string_view name) const {
    CKPT_TRY(std::string_view column, text(name));
    if (column.empty()) return std::optional<double>();
    std::optional<double> value = number_in(column);
    if (!value) return fail("line {}: column {} is not a number", number_, name);
    return value;
  }

 private:
  size_t number_ = 0;
  std::vector<std::string_view> names_, row_;
};

template <class F>
Result<> for_each_row(std::string_view text, F &&each) {
  Table table;
  return for_each_line(text, [&](size_t number, std::string_view line) -> Result<> {
    if (!table.has_header()) return table.set_header(line);
    CKPT_CHECK(table.set_row(number, line));
    return each(number, table);
  });
}

}  // namespace

Result<Trace> read_pods(std::string_view text, const TraceOptions &o) {
  Trace trace;
  CKPT_CHECK(for_each_row(text, [&](size_t number, const Table &row) -> Result<> {
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
  CKPT_CHECK(for_each_row(text, [&](size_t number, const Table &row) -> Result<> {
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

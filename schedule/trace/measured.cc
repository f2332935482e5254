// SPDX-License-Identifier: Apache-2.0
#include "schedule/trace/measured.h"

#include "schedule/trace/csv.h"

namespace ckpt::schedule {
namespace {

Result<double> measure(const CsvRow &row, size_t number, std::string_view name) {
  CKPT_TRY(std::optional<double> value, row.number(name));
  if (!value || *value < 0) return fail("line {}: column {} is not a measure", number, name);
  return *value;
}

}  // namespace

Result<std::vector<ContentionTask>> read_tasks_csv(std::string_view text) {
  std::vector<ContentionTask> tasks;
  CKPT_CHECK(for_each_row(text, [&](size_t number, const CsvRow &row) -> Result<> {
    ContentionTask t;
    CKPT_TRY(std::string_view name, row.text("name"));
    t.name = name;
    CKPT_TRY(t.seconds, measure(row, number, "seconds"));
    CKPT_TRY(t.memory_gb, measure(row, number, "memory_gb"));
    CKPT_TRY(t.host_to_device_gb, measure(row, number, "host_to_device_gb"));
    CKPT_TRY(t.device_to_host_gb, measure(row, number, "device_to_host_gb"));
    if (t.seconds <= 0) return fail("line {}: a task takes time", number);
    t.uses_gpu = t.host_to_device_gb > 0 || t.device_to_host_gb > 0;
    tasks.push_back(std::move(t));
    return {};
  }));
  if (tasks.empty()) return fail("there is no task");
  return tasks;
}

std::string tasks_csv(const std::vector<ContentionTask> &tasks) {
  std::string text = "name,seconds,memory_gb,host_to_device_gb,device_to_host_gb\n";
  for (const ContentionTask &t : tasks)
    text += fmt::format("{},{},{},{},{}\n", t.name, t.seconds, t.memory_gb, t.host_to_device_gb,
                        t.device_to_host_gb);
  return text;
}

}  // namespace ckpt::schedule

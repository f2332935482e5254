// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/contention.h"

#include <nlohmann/json.hpp>

#include "schedule/contention/slowdown.h"
#include "schedule/simulate/task_set.h"
#include "schedule/trace/lines.h"
#include "schedule/trace/measured.h"
#include "tools/json_text.h"
#include "tools/node_file.h"
#include "tools/text_file.h"

namespace ckpt::tools {

using namespace schedule;
using nlohmann::json;

namespace {

constexpr unsigned kPaperNodes = 10;
constexpr size_t kMostTasks = 5'000;  // the time grows with the square
constexpr double kJoulesPerKwh = 3.6e6;

Result<PowerModel> power_of(const SimOptions &o) {
  std::vector<std::string_view> parts = columns_of(o.watts, ',');
  if (parts.size() != 3)
    return fail_with_hint("--watts: NODE,CORE,GPU is needed", "see ckpt-sim(1)");
  std::vector<double> watts;
  for (std::string_view part : parts) {
    std::optional<double> value = number_in(part);
    if (!value || *value < 0) return fail("--watts: {:?} is not a power", part);
    watts.push_back(*value);
  }
  return PowerModel{watts[0], watts[1], watts[2]};
}

Result<TaskSet> set_named(std::string_view name) {
  if (name == "1") return TaskSet::Equal;
  if (name == "2") return TaskSet::WithoutCbmat;
  if (name == "3") return TaskSet::MuchCbmat;
  return fail("--task-sets: there is no set {:?}; they are 1, 2 and 3", name);
}

json result_of(const EctSchedule &s, const PowerModel &power, std::string_view set, bool aware) {
  return {{"set", set},
          {"policy", aware ? "contention-ECT" : "ECT"},
          {"makespan", s.makespan},
          {"processor_seconds", s.processor_seconds},
          {"modelled_kwh", energy_of(s, power) / kJoulesPerKwh}};
}

std::string table_of_ect(const json &results) {
  std::string text = "set  policy           makespan  processor time  energy (kWh, by a model)\n";
  for (const json &r : results)
    text += fmt::format("{:<4} {:<14} {:>10.1f} {:>15.1f} {:>13.4f}\n", r["set"].get<std::string>(),
                        r["policy"].get<std::string>(), r["makespan"].get<double>(),
                        r["processor_seconds"].get<double>(), r["modelled_kwh"].get<double>());
  return text + "(seconds; the power model is an assumption, see --watts)\n";
}

}  // namespace

Result<std::string> compare_ect(const SimOptions &o) {
  CKPT_TRY(PowerModel power, power_of(o));
  if (o.task_count == 0 || o.task_count > kMostTasks)
    return fail("--task-count: a number from 1 to {} is needed", kMostTasks);
  json results = json::array();
  for (std::string_view name : columns_of(o.task_sets, ',')) {
    CKPT_TRY(TaskSet set, set_named(name));
    std::vector<ContentionTask> tasks = task_set(set, o.task_count, o.seed);
    for (bool aware : {false, true})
      results.push_back(result_of(
          schedule_ect(tasks, {}, kPaperNodes, aware ? Contention::Modelled : Contention::Ignored),
          power, name, aware));
  }
  return o.as_json ? json_text(results, 2) + "\n" : table_of_ect(results);
}

Result<std::string> predict_pairs(const SimOptions &o) {
  Bandwidths node;
  if (!o.node.empty()) {
    CKPT_TRY(node, read_bandwidths(o.node));
  }
  CKPT_TRY(std::string text, contents_of(o.tasks));
  Result<std::vector<ContentionTask>> tasks = read_tasks_csv(text);
  if (!tasks) return Failure(std::move(tasks).error().in(o.tasks));
  json pairs = json::array();
  std::string table = "task                 beside                slowdown\n";
  for (const ContentionTask &task : *tasks)
    for (const ContentionTask &other : *tasks) {
      StageShares shares = shares_of(task, node), neighbour = shares_of(other, node);
      double slow = slowdown(shares, std::span(&neighbour, 1), node);
      pairs.push_back({{"task", task.name},
                       {"beside", other.name},
                       {"slowdown", slow},
                       {"scaled", shares.scaled}});
      table += fmt::format("{:<20} {:<20} {:>9.3f}{}\n", task.name, other.name, slow,
                           shares.scaled ? "  (its stages exceed its time)" : "");
    }
  return o.as_json ? json_text(pairs, 2) + "\n" : table;
}

}  // namespace ckpt::tools

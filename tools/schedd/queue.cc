// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/queue.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "tools/schedd/resources.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr size_t kMostHosts = 1 << 16;

std::optional<i64> number_of(const json &value) {
  if (value.is_number_integer()) return value.get<i64>();
  if (!value.is_object()) return {};
  const json &set = json_member(value, "set"), &infinite = json_member(value, "infinite");
  if (set != true || infinite == true) return {};
  return number_of(json_member(value, "number"));
}

std::string text_of(const json &value) {
  if (value.is_array() && !value.empty()) return text_of(value[0]);
  return value.is_string() ? value.get<std::string>() : "";
}

// Up to 22.05 one word: a flag such as COMPLETING, or else the state. Later versions print the
// state and all flags: ["PENDING", "SPECIAL_EXIT"].
std::string state_of(const json &value) {
  std::string state = text_of(value);
  if (value.is_array())
    for (const char *flag : {"COMPLETING", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUED", "STOPPED"})
      if (std::find(value.begin(), value.end(), flag) != value.end()) return flag;
  // The signal is on its way to the job.
  return state == "SIGNALING" ? "RUNNING" : state;
}

// A running job without a limit has one of a year (slurmctld's YEAR_MINUTES).
std::optional<i64> limit_of(const json &value) {
  constexpr i64 kYearMinutes = 365 * 24 * 60;
  std::optional<i64> minutes = number_of(value);
  if (!minutes || *minutes >= kYearMinutes) return {};
  return *minutes * 60;
}

schedule::Resources needs_of(const json &j) {
  auto text = [&](const char *name) { return text_of(json_member(j, name)); };
  std::string allocated = text("tres_alloc_str");
  schedule::Resources needs = resources_in(allocated.empty() ? text("tres_req_str") : allocated);
  const i64 tasks = std::clamp<i64>(number_of(json_member(j, "tasks")).value_or(1), 1, kMostHosts);
  // Slurm lists GPUs among the resources above only where the administrator has it account for
  // them.
  for (unsigned gpus : {gpus_in(text("tres_per_job")), gpus_in(text("tres_per_node")),
                        gpus_in(text("tres_per_task")) * static_cast<unsigned>(tasks)})
    needs.gpus = std::max(needs.gpus, gpus);
  return needs;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(','));
    words.emplace_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

Result<Demands> demands_of(const json &j) {
  Demands d{split(text_of(json_member(j, "partition"))), {}, text_of(json_member(j, "features"))};
  CKPT_TRY(d.excluded, expand_hosts(text_of(json_member(j, "excluded_nodes"))));
  std::ranges::sort(d.excluded);
  return d;
}

Result<QueuedJob> job_of(const json &j) {
  QueuedJob job;
  std::optional<i64> id = number_of(json_member(j, "job_id"));
  job.state = state_of(json_member(j, "job_state"));
  if (!id || *id <= 0 || job.state.empty()) return fail("a job has no number or no state");
  job.id = static_cast<u64>(*id);
  job.comment = text_of(json_member(j, "comment"));
  job.reason = text_of(json_member(j, "state_reason"));
  job.submitted = number_of(json_member(j, "submit_time")).value_or(0);
  job.started = number_of(json_member(j, "start_time")).value_or(0);
  job.eligible = number_of(json_member(j, "eligible_time")).value_or(0);
  job.limit = limit_of(json_member(j, "time_limit"));
  job.nodes = static_cast<unsigned>(
      std::clamp<i64>(number_of(json_member(j, "node_count")).value_or(1), 1, kMostHosts));
  job.restarts =
      static_cast<unsigned>(std::max<i64>(0, number_of(json_member(j, "restart_cnt")).value_or(0)));
  job.held = number_of(json_member(j, "priority")) == 0;
  for (const char *group : {"array_job_id", "het_job_id"})
    job.group =
        std::max(job.group,
                 static_cast<u64>(std::max<i64>(0, number_of(json_member(j, group)).value_or(0))));
  job.exclusive = text_of(json_member(j, "shared")) == "none";
  job.needs = needs_of(j);
  CKPT_TRY(job.on, expand_hosts(text_of(json_member(j, "nodes"))));
  CKPT_TRY(job.required, expand_hosts(text_of(json_member(j, "required_nodes"))));
  CKPT_TRY(job.demands, demands_of(j));
  return job;
}

// The value of NAME= in a line of such words.
std::string_view word_of(std::string_view line, std::string_view name) {
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    std::string_view word = line.substr(at, end - at);
    if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      return word.substr(name.size() + 1);
    at = end + 1;
  }
  return {};
}

// States are joined by '+', and '*' marks a node that does not answer.
bool is_usable(std::string_view state) {
  for (std::string_view bad :
       {"DOWN", "DRAIN", "FAIL", "MAINT", "PLANNED", "POWER", "REBOOT", "RESERVED", "UNKNOWN",
        "FUTURE", "NOT_RESPONDING", "INVAL", "BLOCKED", "*"})
    if (state.find(bad) != state.npos) return false;
  return true;
}

Result<> add_range(std::vector<std::string> &hosts, std::string_view prefix, std::string_view range,
                   std::string_view suffix) {
  std::string_view first = range.substr(0, range.find('-'));
  std::string_view last = first.size() < range.size() ? range.substr(first.size() + 1) : first;
  unsigned a = 0, b = 0;
  auto read = [](std::string_view text, unsigned &n) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (!read(first, a) || !read(last, b) || b < a || b - a >= kMostHosts - hosts.size())
    return fail("{}[{}]{} is not a list of nodes", prefix, range, suffix);
  for (unsigned i = a; i <= b; i++)
    hosts.push_back(fmt::format("{}{:0{}}{}", prefix, i, first.size(), suffix));
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  while (!list.empty()) {
    size_t comma = list.find(','), open = list.find('[');
    if (open >= comma) {
      hosts.emplace_back(list.substr(0, comma));
    } else {
      size_t close = list.find(']', open);
      if (close == list.npos) return fail("{} has a bracket without an end", list);
      comma = list.find(',', close);
      std::string_view suffix = list.substr(close + 1, comma - std::min(comma, close + 1));
      for (const std::string &range : split(list.substr(open + 1, close - open - 1)))
        CKPT_CHECK(add_range(hosts, list.substr(0, open), range, suffix));
    }
    if (hosts.size() >= kMostHosts) return fail("{} nodes are too many", hosts.size());
    if (comma == list.npos) break;
    list.remove_prefix(comma + 1);
  }
  return hosts;
}

Result<std::vector<QueuedJob>> parse_queue(const std::string &text) {
  json queue = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!queue.is_object() || !json_member(queue, "jobs").is_array())
    return fail_with_hint("squeue --json did not print a list of jobs",
                          "Slurm needs its JSON plugins (Debian: slurm-wlm-basic-plugins)");
  std::vector<QueuedJob> jobs;
  for (const json &j : queue["jobs"]) {
    CKPT_TRY(QueuedJob job, job_of(j));
    jobs.push_back(std::move(job));
  }
  std::ranges::sort(jobs, {}, &QueuedJob::id);
  return jobs;
}

Result<std::vector<QueueNode>> parse_nodes(std::string_view text) {
  std::vector<QueueNode> nodes;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view name = word_of(line, "NodeName"), state = word_of(line, "State");
    if (name.empty()) continue;
    if (state.empty()) return fail("scontrol show nodes: node {} has no state", name);
    QueueNode node{std::string(name),
                   split(word_of(line, "ActiveFeatures")),
                   split(word_of(line, "Partitions")),
                   is_usable(state),
                   word_of(line, "CPUAlloc") != "0" || state.find("COMPLETING") != state.npos,
                   {count_in(word_of(line, "CPUTot")), gpus_in(word_of(line, "Gres")),
                    static_cast<double>(count_in(word_of(line, "RealMemory")))}};
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace ckpt::tools

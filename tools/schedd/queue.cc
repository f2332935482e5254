// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/queue.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <span>

#include "tools/schedd/resources.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMostHosts = 1 << 16;

// What squeue --Format prints of each job. kExcluded is the last one, as not each version knows it.
enum Field : size_t {
  kId,
  kArrayId,
  kState,
  kSubmitted,
  kStarted,
  kEligible,
  kLimit,
  kNodes,
  kRestarts,
  kPriority,
  kOverSubscribe,
  kTasks,
  kPartition,
  kOn,
  kRequired,
  kFeatures,
  kTres,
  kTresPerJob,
  kTresPerNode,
  kTresPerTask,
  kReason,
  kComment,
  kExcluded,
  kFields
};
constexpr std::array<std::string_view, kFields> kFieldNames = {
    "JobID",         "JobArrayID",    "State",      "SubmitTime",   "StartTime",     "EligibleTime",
    "TimeLimit",     "NumNodes",      "RestartCnt", "PriorityLong", "OverSubscribe", "NumTasks",
    "Partition",     "NodeList",      "ReqNodes",   "Feature",      "tres-alloc",    "tres-per-job",
    "tres-per-node", "tres-per-task", "Reason",     "Comment",      "ExcNodes"};
using Values = std::array<std::string_view, kFields>;

// As squeue prints what a job does not have.
std::string_view present(std::string_view value) {
  return value == "(null)" || value == "N/A" ? std::string_view() : value;
}

// The next field, which the mark ends.
bool take(std::string_view &text, std::string_view mark, std::string_view &value) {
  const size_t end = text.find(mark);
  if (end == text.npos) return false;
  value = present(text.substr(0, end));
  text.remove_prefix(end + mark.size());
  return true;
}

bool take_values(std::string_view &text, std::string_view mark,
                 std::span<std::string_view> values) {
  for (std::string_view &v : values)
    if (!take(text, mark, v)) return false;
  if (!text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return true;
}

Failure wrong_output() {
  return fail_with_hint("squeue did not print what it was asked for",
                        "this version of Slurm is not supported, or its controller has failed");
}

std::optional<i64> integer_in(std::string_view text) {
  i64 value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Slurm prints multiples of 1024 as "2K".
unsigned count_or_one(std::string_view text) {
  const i64 unit = text.ends_with('K') ? 1024 : 1;
  if (unit > 1) text.remove_suffix(1);
  return static_cast<unsigned>(std::clamp<i64>(integer_in(text).value_or(1), 1, kMostHosts / unit) *
                               unit);
}

i64 not_negative(std::string_view text) { return std::max<i64>(0, integer_in(text).value_or(0)); }

// A flag of the job, or else its state. With these flags, it has its nodes.
std::string state_of(std::string_view state) {
  for (std::string_view flag : {"SIGNALING", "CONFIGURING", "RESIZING", "POWER_UP_NODE"})
    if (state == flag) return "RUNNING";
  return std::string(state);
}

// "1-02:03:04", "2:03:04" or "3:04" in seconds. A running job without a limit has one of a year
// (slurmctld's YEAR_MINUTES).
std::optional<i64> limit_of(std::string_view text) {
  constexpr i64 kDay = 24 * 3600, kYear = 365 * kDay;
  i64 days = 0, rest = 0;
  if (size_t dash = text.find('-'); dash != text.npos) {
    days = integer_in(text.substr(0, dash)).value_or(kYear);
    text.remove_prefix(dash + 1);
  }
  for (bool more = true; more;) {
    std::string_view part = text.substr(0, text.find(':'));
    more = part.size() < text.size();
    text.remove_prefix(part.size() + (more ? 1 : 0));
    std::optional<i64> n = integer_in(part);
    if (!n || *n < 0 || *n > kDay || rest > kYear) return {};
    rest = rest * 60 + *n;
  }
  if (days < 0 || days >= 365 || days * kDay + rest >= kYear) return {};
  return days * kDay + rest;
}

// "12", "12_[1-3%2]" and "12_1" of an array, "12+1" of a heterogeneous job.
u64 group_in(std::string_view id) {
  const size_t end = id.find_first_of("_+");
  return end == id.npos ? 0 : static_cast<u64>(not_negative(id.substr(0, end)));
}

schedule::Resources needs_of(const Values &v) {
  schedule::Resources needs = resources_in(v[kTres]);
  // Slurm lists GPUs among the resources above only where the administrator has it account for
  // them.
  for (unsigned gpus : {gpus_in(v[kTresPerJob]), gpus_in(v[kTresPerNode]),
                        gpus_in(v[kTresPerTask]) * count_or_one(v[kTasks])})
    needs.gpus = std::max(needs.gpus, gpus);
  return needs;
}

Result<std::vector<std::string>> sorted_hosts(std::string_view list) {
  CKPT_TRY(std::vector<std::string> hosts, expand_hosts(list));
  std::ranges::sort(hosts);
  return hosts;
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

Result<QueuedJob> job_of(const Values &v) {
  QueuedJob job;
  job.id = static_cast<u64>(not_negative(v[kId]));
  job.state = state_of(v[kState]);
  if (job.id == 0 || job.state.empty()) return fail("squeue: a job has no number or no state");
  job.comment = v[kComment];
  job.reason = v[kReason];
  job.submitted = not_negative(v[kSubmitted]);
  job.started = not_negative(v[kStarted]);
  job.eligible = not_negative(v[kEligible]);
  job.limit = limit_of(v[kLimit]);
  job.nodes = count_or_one(v[kNodes]);
  job.restarts = static_cast<unsigned>(std::min<i64>(not_negative(v[kRestarts]), UINT_MAX));
  job.held = integer_in(v[kPriority]) == 0;
  job.group = group_in(v[kArrayId]);
  job.exclusive = v[kOverSubscribe] == "NO";
  job.needs = needs_of(v);
  CKPT_TRY(job.on, expand_hosts(v[kOn]));
  CKPT_TRY(job.required, expand_hosts(v[kRequired]));
  job.demands = {split(v[kPartition]), {}, std::string(v[kFeatures])};
  CKPT_TRY(job.demands.excluded, sorted_hosts(v[kExcluded]));
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

std::string queue_format(std::string_view mark, bool with_excluded) {
  std::string format;
  for (size_t i = 0; i < (with_excluded ? kFields : kExcluded); i++)
    format += fmt::format("{}{}:{}", i ? "," : "", kFieldNames[i], mark);
  return format;
}

std::string exclusions_format(std::string_view mark) { return fmt::format("%A{0}%x{0}", mark); }

Result<std::vector<QueuedJob>> parse_queue(std::string_view text, std::string_view mark,
                                           bool with_excluded) {
  std::vector<QueuedJob> jobs;
  Values values;
  while (!text.empty()) {
    if (!take_values(text, mark, std::span(values).first(with_excluded ? kFields : kExcluded)))
      return wrong_output();
    CKPT_TRY(QueuedJob job, job_of(values));
    jobs.push_back(std::move(job));
  }
  std::ranges::sort(jobs, {}, &QueuedJob::id);
  return jobs;
}

Result<> add_exclusions(std::string_view text, std::string_view mark,
                        std::vector<QueuedJob> &jobs) {
  while (!text.empty()) {
    std::array<std::string_view, 2> values;
    if (!take_values(text, mark, values)) return wrong_output();
    auto [id, excluded] = values;
    auto job =
        std::ranges::lower_bound(jobs, static_cast<u64>(not_negative(id)), {}, &QueuedJob::id);
    if (excluded.empty() || job == jobs.end() || job->id != static_cast<u64>(not_negative(id)))
      continue;
    CKPT_TRY(job->demands.excluded, sorted_hosts(excluded));
  }
  return {};
}

bool knows_exclusions(std::string_view version) {
  constexpr std::pair<i64, i64> kFirst{24, 11};
  const size_t begin = version.find_first_of("0123456789");
  version.remove_prefix(std::min(begin, version.size()));
  const size_t dot = std::min(version.find('.'), version.size());
  std::string_view rest = version.substr(std::min(dot + 1, version.size()));
  return std::pair<i64, i64>(
             integer_in(version.substr(0, dot)).value_or(0),
             integer_in(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0)) >=
         kFirst;
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/records.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_set>

#include "common/base/io.h"
#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/new_file.h"
#include "common/base/regular_file.h"
#include "common/base/unique_fd.h"
#include "tools/json_text.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 64u << 20;

template <class T>
std::optional<T> number_of(const json &j, const char *name) {
  if (!json_member(j, name).is_number()) return std::nullopt;
  return json_value(j, name, T{});
}

Record record_in(const json &j) {
  return {.submitted = json_value(j, "submitted", i64{0}),
          .done = std::clamp(json_value(j, "done", 0.0), 0.0, 1.0),
          .at = number_of<i64>(j, "at"),
          .slow = number_of<double>(j, "slow"),
          .placed = number_of<i64>(j, "placed"),
          .nodes = json_strings(json_list(j, "nodes")),
          .until = number_of<i64>(j, "until"),
          .leaving = number_of<i64>(j, "leaving"),
          .planned = number_of<double>(j, "planned"),
          .stays = json_value(j, "stays", false),
          .not_before = json_value(j, "not_before", i64{0}),
          .failed_starts = json_value(j, "failed_starts", 0u)};
}

json json_of(const Record &r) {
  json j = {{"submitted", r.submitted}, {"done", r.done}};
  auto add = [&j](const char *name, const auto &value) {
    if (value) j[name] = *value;
  };
  add("at", r.at);
  add("slow", r.slow);
  add("placed", r.placed);
  if (!r.nodes.empty()) j["nodes"] = r.nodes;
  add("until", r.until);
  add("leaving", r.leaving);
  add("planned", r.planned);
  if (r.stays) j["stays"] = true;
  if (r.not_before) j["not_before"] = r.not_before;
  if (r.failed_starts) j["failed_starts"] = r.failed_starts;
  return j;
}

}  // namespace

void Record::forget_nodes() {
  at = placed = until = leaving = {};
  slow.reset();
  planned.reset();
  nodes.clear();
}

Result<Records> Records::load(std::string path) {
  Records r;
  r.path_ = std::move(path);
  if (r.path_.empty()) return r;
  UniqueFd file = open_regular(r.path_);
  if (!file && ::access(r.path_.c_str(), F_OK) != 0 && errno == ENOENT) return r;
  if (!file)
    return fail_with_hint(fmt::format("cannot read {} as a file", r.path_),
                          "name another one with --state, or let this user read it");
  json all = parse_json(output_in(file.get(), kMaxFile));
  if (!all.is_object())
    return fail_with_hint(fmt::format("{} is damaged", r.path_),
                          "remove it: ckpt-schedd then starts without what it knew of jobs");
  for (const auto &[number, record] : all.items())
    if (u64 id = std::strtoull(number.c_str(), nullptr, 10)) r.all_[id] = record_in(record);
  return r;
}

// Slurm counts a job that it has queued again as submitted then (slurmctld's submit_time), and a
// number that it uses again belongs to a job without restarts.
Record Records::of(const QueuedJob &job) const {
  auto found = all_.find(job.id);
  if (found != all_.end() && (found->second.submitted == job.submitted || job.restarts > 0))
    return found->second;
  Record r;
  r.submitted = job.submitted;
  return r;
}

void Records::set(const QueuedJob &job, const Record &record) {
  if (of(job) == record) return;
  all_[job.id] = record;
  changed_ = true;
}

void Records::keep_only(const std::vector<QueuedJob> &jobs) {
  std::unordered_set<u64> ids;
  for (const QueuedJob &j : jobs) ids.insert(j.id);
  changed_ |= std::erase_if(all_, [&](const auto &r) { return !ids.contains(r.first); }) > 0;
}

Result<> Records::save() {
  if (!changed_ || path_.empty()) return {};
  json all = json::object();
  for (const auto &[id, record] : all_) all[std::to_string(id)] = json_of(record);
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ec);
  UniqueFd text(::memfd_create("ckpt-schedd-records", MFD_CLOEXEC));
  if (!text) return fail_errno("cannot make a file in memory");
  CKPT_CHECK(write_all(text.get(), view(json_text(all, 1) + "\n")));
  ::lseek(text.get(), 0, SEEK_SET);
  Result<> written = copy_to_new_file(text.get(), path_);
  if (!written)
    return fail_with_hint(written.error().what, "name a file that can be written with --state");
  changed_ = false;
  return {};
}

std::string usual_records_file() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value && *value == '/' ? value : "");
  };
  // Of the systemd unit (StateDirectory=).
  if (std::string folder = variable("STATE_DIRECTORY"); !folder.empty())
    return folder + "/jobs.json";
  if (::geteuid() == 0) return "/var/lib/ckpt-schedd/jobs.json";
  if (std::string state = variable("XDG_STATE_HOME"); !state.empty())
    return state + "/ckpt/schedd-jobs.json";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.local/state/ckpt/schedd-jobs.json";
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/guests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>

#include "common/base/named_user.h"
#include "common/base/text.h"
#include "tools/text_file.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// Fields of /proc/PID/stat after the name, which may contain anything (proc_pid_stat(5)).
constexpr size_t kUserTicks = 11, kSystemTicks = 12, kStart = 19;

struct Times {
  u64 start = 0, ticks = 0;
};

std::optional<Times> times_in(const std::string &stat) {
  size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return {};
  std::istringstream in(stat.substr(name_end + 1));
  std::vector<std::string> fields;
  for (std::string field; in >> field;) fields.push_back(std::move(field));
  if (fields.size() <= kStart) return {};
  auto number = [&](size_t i) { return std::strtoull(fields[i].c_str(), nullptr, 10); };
  return Times{number(kStart), number(kUserTicks) + number(kSystemTicks)};
}

std::optional<pid_t> pid_in(const std::string &name) {
  pid_t pid = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return {};
  return pid;
}

}  // namespace

Result<> Guests::add_users(const std::string &names) {
  for (const std::string &name : split_at_commas(names)) {
    std::optional<uid_t> uid = named_user(name);
    if (!uid)
      return fail_with_hint(fmt::format("--guests: there is no account \"{}\"", name),
                            "write the names of the accounts of guests, separated by commas");
    users_.insert(*uid);
  }
  return {};
}

Result<> Guests::add_cgroup(std::string path) {
  if (!path.starts_with('/')) path = fmt::format("/{}", path);
  while (path.ends_with('/')) path.pop_back();
  if (path.empty() || path.find("..") != path.npos)
    return fail_with_hint("--guests-cgroup must name a cgroup below /sys/fs/cgroup",
                          "write, for example, system.slice/slurmstepd.scope");
  cgroup_ = path;
  return {};
}

bool Guests::has(pid_t pid) const {
  std::string folder = fmt::format("{}/proc/{}", root_, pid);
  struct stat st {};
  if (::stat(folder.c_str(), &st) == 0 && users_.contains(st.st_uid)) return true;
  if (cgroup_.empty()) return false;
  std::string line = contents_of(folder + "/cgroup").value_or("");
  std::string inside = "0::" + cgroup_;
  if (!line.starts_with(inside)) return false;
  char next = line.size() > inside.size() ? line[inside.size()] : '\n';
  return next == '/' || next == '\n';
}

double Guests::seconds_since_last() {
  double cgroup = cgroup_.empty() ? 0 : cgroup_seconds();
  double seconds = std::max(0.0, cgroup - std::exchange(cgroup_before_, cgroup));
  seconds += users_.empty() ? 0 : processes_seconds();
  return std::exchange(first_, false) ? 0 : seconds;
}

// A cgroup that is not there has no guests: Slurm makes its own with the first job.
double Guests::cgroup_seconds() const {
  std::istringstream in(
      contents_of(fmt::format("{}/sys/fs/cgroup{}/cpu.stat", root_, cgroup_)).value_or(""));
  double microseconds = 0;
  for (std::string name; in >> name >> microseconds;)
    if (name == "usage_usec") return microseconds / 1e6;
  return 0;
}

double Guests::processes_seconds() {
  std::map<std::pair<pid_t, u64>, u64> now;
  u64 used = 0;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(root_ + "/proc", ec)) {
    std::optional<pid_t> pid = pid_in(e.path().filename());
    struct stat st {};
    if (!pid || ::stat(e.path().c_str(), &st) < 0 || !users_.contains(st.st_uid)) continue;
    std::optional<Times> t = times_in(contents_of(e.path() / "stat").value_or(""));
    if (!t) continue;
    auto before = ticks_before_.find({*pid, t->start});
    used += t->ticks - (before == ticks_before_.end() ? 0 : std::min(before->second, t->ticks));
    now[{*pid, t->start}] = t->ticks;
  }
  ticks_before_ = std::move(now);
  return static_cast<double>(used) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace ckpt::tools

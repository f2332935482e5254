// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/guests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "common/base/named_user.h"
#include "common/base/text.h"
#include "common/base/words.h"
#include "common/proc/cgroups.h"
#include "common/proc/stat.h"
#include "tools/text_file.h"

namespace ckpt::tools {

namespace fs = std::filesystem;

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
  std::string text = contents_of(folder + "/cgroup").value_or("");
  return std::ranges::any_of(proc::parse_cgroups(text), [this](const proc::Cgroup &c) {
    return c.is_version_2() && (c.path + "/").starts_with(cgroup_ + "/");
  });
}

double Guests::seconds_since_last() {
  double cgroup = cgroup_.empty() ? 0 : cgroup_seconds();
  double seconds = std::max(0.0, cgroup - std::exchange(cgroup_before_, cgroup));
  seconds += users_.empty() ? 0 : processes_seconds();
  return std::exchange(first_, false) ? 0 : seconds;
}

// A cgroup that is not there has no guests: Slurm makes its own with the first job.
double Guests::cgroup_seconds() const {
  std::string stat =
      contents_of(fmt::format("{}/sys/fs/cgroup{}/cpu.stat", root_, cgroup_)).value_or("");
  return static_cast<double>(leading_number(after_name(stat, "usage_usec"), u64{0})) / 1e6;
}

double Guests::processes_seconds() {
  std::map<std::pair<pid_t, u64>, u64> now;
  u64 used = 0;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(root_ + "/proc", ec)) {
    pid_t pid = 0;
    struct stat st {};
    if (!parse_number(e.path().filename().native(), pid) || ::stat(e.path().c_str(), &st) < 0 ||
        !users_.contains(st.st_uid))
      continue;
    std::optional<proc::Stat> s = proc::parse_stat(contents_of(e.path() / "stat").value_or(""));
    if (!s) continue;
    auto before = ticks_before_.find({pid, s->start_ticks});
    used += s->used_ticks -
            (before == ticks_before_.end() ? 0 : std::min(before->second, s->used_ticks));
    now[{pid, s->start_ticks}] = s->used_ticks;
  }
  ticks_before_ = std::move(now);
  return static_cast<double>(used) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace ckpt::tools

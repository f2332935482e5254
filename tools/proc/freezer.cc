// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/freezer.h"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file_text.h"
#include "common/proc/cgroups.h"
#include "common/proc/mounts.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFreezing = 10s, kFreezePoll = 10ms;

bool file_has(const std::string &path, std::string_view text) {
  return file_text(path).value_or("").find(text) != std::string::npos;
}

// Where this hierarchy is mounted; "": nowhere.
std::string mount_of(const proc::Cgroup &group) {
  for (const proc::Mount &m : proc::mounts_of(::getpid()))
    if (group.is_version_2()
            ? m.type == "cgroup2"
            : m.type == "cgroup" &&
                  fmt::format(",{},", m.options).find(",freezer,") != std::string::npos)
      return m.point;
  return {};
}

}  // namespace

bool Freezer::frozen_by_itself() const {
  return version_2_ ? file_has(group_ + "/cgroup.freeze", "1")
                    : file_has(group_ + "/freezer.self_freezing", "1");
}

bool Freezer::is_frozen() const {
  return version_2_ ? file_has(group_ + "/cgroup.events", "frozen 1")
                    : file_has(group_ + "/freezer.state", "FROZEN");
}

std::optional<Freezer> Freezer::holding(pid_t pid) {
  for (const proc::Cgroup &g : proc::cgroups_of(pid).value_or(std::vector<proc::Cgroup>{})) {
    if (!g.is_version_2() && !g.has("freezer")) continue;
    std::string top = mount_of(g);
    for (std::string path = g.path; !top.empty() && path.size() > 1; path.erase(path.rfind('/')))
      if (Freezer f(top + path, g.is_version_2()); f.frozen_by_itself()) return f;
  }
  return {};
}

Result<> Freezer::thaw() const {
  return version_2_ ? write_file_text(group_ + "/cgroup.freeze", "0")
                    : write_file_text(group_ + "/freezer.state", "THAWED");
}

Result<> Freezer::freeze() const {
  for (auto end = Clock::now() + kFreezing; Clock::now() < end;
       std::this_thread::sleep_for(kFreezePoll)) {
    // Version 1 may need to be asked again (the kernel's freezer-subsystem.rst).
    CKPT_CHECK(version_2_ ? write_file_text(group_ + "/cgroup.freeze", "1")
                          : write_file_text(group_ + "/freezer.state", "FROZEN"));
    if (is_frozen()) return {};
  }
  return fail("the control group {} does not freeze", group_);
}

}  // namespace ckpt::tools

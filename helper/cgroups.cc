// SPDX-License-Identifier: Apache-2.0
#include "helper/cgroups.h"

#include <map>
#include <string>
#include <vector>

#include "common/base/file_text.h"
#include "common/proc/cgroups.h"
#include "common/proc/file.h"
#include "common/proc/mounts.h"
#include "helper/identity.h"

namespace ckpt::helper {
namespace {

// Where each hierarchy is mounted (mounts of type cgroup name their controllers as options).
std::string mount_point_of(const proc::Cgroup &group) {
  for (const proc::Mount &m : proc::mounts_of(proc::kSelf)) {
    bool version_2 = group.is_version_2() && m.type == "cgroup2";
    bool version_1 =
        !group.is_version_2() && m.type == "cgroup" &&
        ("," + m.options + ",").find("," + group.controllers + ",") != std::string::npos;
    if (version_1 || version_2) return m.point;
  }
  return {};
}

// The kernel asks for the right to write into the group, and into the nearest group above both. The
// latter may be root's, so the caller's own rights would not do.
Result<> move_into(const proc::Cgroup &h) {
  std::string point = mount_point_of(h);
  if (point.empty()) return fail("the control group {} is not mounted", h.path);
  WithCapability overriding(CAP_DAC_OVERRIDE);
  return write_file_text(fmt::format("{}{}/cgroup.procs", point, h.path), "0");
}

}  // namespace

Result<> join_cgroups_of(pid_t pid) {
  std::map<std::string, std::string> ours;
  CKPT_TRY(std::vector<proc::Cgroup> own, proc::cgroups_of(proc::kSelf));
  for (const proc::Cgroup &h : own) ours[h.controllers] = h.path;
  CKPT_TRY(std::vector<proc::Cgroup> theirs, proc::cgroups_of(pid));
  for (const proc::Cgroup &h : theirs)
    if (ours[h.controllers] != h.path)
      if (Result<> moved = move_into(h); !moved)
        return Failure(std::move(moved).error().in("ckpt-helper cannot enter the caller's group"));
  return {};
}

}  // namespace ckpt::helper

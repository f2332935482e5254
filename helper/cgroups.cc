// SPDX-License-Identifier: Apache-2.0
#include "helper/cgroups.h"

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/file_text.h"
#include "helper/identity.h"

namespace ckpt::helper {
namespace {

struct Hierarchy {
  std::string controllers;  // "": version 2
  std::string path;
};

// Lines of /proc/PID/cgroup (cgroups(7)): "4:memory:/a/b", or "0::/a/b" for version 2.
Result<std::vector<Hierarchy>> cgroups_of(const std::string &pid) {
  CKPT_TRY(std::string text, file_text("/proc/" + pid + "/cgroup"));
  std::vector<Hierarchy> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != line.npos)
      all.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return all;
}

// Where each hierarchy is mounted (mounts of type cgroup name their controllers as options).
std::string mount_point_of(const Hierarchy &h) {
  std::istringstream in(file_text("/proc/self/mounts").value_or(""));
  for (std::string device, point, type, options, rest;
       in >> device >> point >> type >> options && std::getline(in, rest);) {
    bool version_2 = h.controllers.empty() && type == "cgroup2";
    bool version_1 = !h.controllers.empty() && type == "cgroup" &&
                     ("," + options + ",").find("," + h.controllers + ",") != std::string::npos;
    if (version_1 || version_2) return point;
  }
  return {};
}

// The kernel asks for the right to write into the group, and into the nearest group above both. The
// latter may be root's, so the caller's own rights would not do.
Result<> move_into(const Hierarchy &h) {
  std::string point = mount_point_of(h);
  if (point.empty()) return fail("the control group {} is not mounted", h.path);
  WithCapability overriding(CAP_DAC_OVERRIDE);
  return write_file_text(fmt::format("{}{}/cgroup.procs", point, h.path), "0");
}

}  // namespace

Result<> join_cgroups_of(pid_t pid) {
  std::map<std::string, std::string> ours;
  CKPT_TRY(std::vector<Hierarchy> own, cgroups_of("self"));
  for (const Hierarchy &h : own) ours[h.controllers] = h.path;
  CKPT_TRY(std::vector<Hierarchy> theirs, cgroups_of(std::to_string(pid)));
  for (const Hierarchy &h : theirs)
    if (ours[h.controllers] != h.path)
      if (Result<> moved = move_into(h); !moved)
        return Failure(std::move(moved).error().in("ckpt-helper cannot enter the caller's group"));
  return {};
}

}  // namespace ckpt::helper

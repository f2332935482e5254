// SPDX-License-Identifier: Apache-2.0
#include "tools/session/leftover_mounts.h"

#include <sys/mount.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "common/base/file_text.h"

namespace ckpt::tools {
namespace {

// The kernel writes blanks and the like as three octal digits (proc_pid_mountinfo(5)).
std::string without_escapes(const std::string &text) {
  constexpr size_t kDigits = 3;
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    bool escape = text[i] == '\\' && i + kDigits < text.size();
    plain +=
        escape ? static_cast<char>(std::stoi(text.substr(i + 1, kDigits), nullptr, 8)) : text[i];
    i += escape ? kDigits : 0;
  }
  return plain;
}

// In the order in which they were mounted.
std::vector<std::string> mount_points() {
  std::vector<std::string> all;
  std::istringstream in(file_text("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    if (fields >> id >> parent >> device >> root >> point) all.push_back(without_escapes(point));
  }
  return all;
}

}  // namespace

void unmount_cgroup_yards(const std::string &folder) {
  if (::geteuid() != 0) return;
  std::string prefix = fmt::format("{}/{}", folder, kCgroupYard);
  std::vector<std::string> points = mount_points();
  for (auto point = points.rbegin(); point != points.rend(); ++point)
    if (point->starts_with(prefix)) ::umount2(point->c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

}  // namespace ckpt::tools

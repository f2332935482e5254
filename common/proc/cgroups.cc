// SPDX-License-Identifier: Apache-2.0
#include "common/proc/cgroups.h"

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {

// Controllers that are mounted together have one line.
bool Cgroup::has(std::string_view controller) const {
  return !is_version_2() &&
         fmt::format(",{},", controllers).find(fmt::format(",{},", controller)) !=
             std::string::npos;
}

std::vector<Cgroup> parse_cgroups(std::string_view text) {
  std::vector<Cgroup> all;
  for (std::string_view line : lines_of(text)) {
    size_t first = line.find(':');
    size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second != line.npos)
      all.push_back({std::string(line.substr(first + 1, second - first - 1)),
                     std::string(line.substr(second + 1))});
  }
  return all;
}

Result<std::vector<Cgroup>> cgroups_of(pid_t pid) {
  CKPT_TRY(std::string text, read(pid, "cgroup"));
  return parse_cgroups(text);
}

}  // namespace ckpt::proc

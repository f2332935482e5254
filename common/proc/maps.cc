// SPDX-License-Identifier: Apache-2.0
#include "common/proc/maps.h"

#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt {

bool ProcMapping::private_anonymous() const {
  bool nameless = path.empty() || path == "[heap]" || path.starts_with("[anon:");
  return nameless && inode == 0 && permissions.ends_with('p');
}

// 7f5c1e000000-7f5c1e021000 rw-p 00000000 08:01 1234      /usr/lib/libx.so
std::optional<ProcMapping> parse_proc_mapping(const std::string &line) {
  ProcMapping m;
  char permissions[5] = "";
  unsigned major = 0, minor = 0;
  int path_at = 0;
  int fields = std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %x:%x %" SCNu64 " %n",
                           &m.begin, &m.end, permissions, &major, &minor, &m.inode, &path_at);
  if (fields != 6) return std::nullopt;
  m.device = makedev(major, minor);
  m.permissions = permissions;
  m.path = path_at > 0 ? line.substr(static_cast<size_t>(path_at)) : "";
  return m;
}

std::vector<ProcMapping> parse_proc_maps(std::string_view text) {
  std::vector<ProcMapping> maps;
  for (std::string_view line : lines_of(text))
    if (std::optional<ProcMapping> m = parse_proc_mapping(std::string(line)))
      maps.push_back(std::move(*m));
  return maps;
}

std::vector<ProcMapping> proc::mappings_of(pid_t pid) {
  std::string maps = text(pid, "maps");
  return parse_proc_maps(maps);
}

}  // namespace ckpt

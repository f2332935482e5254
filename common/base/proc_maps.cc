// SPDX-License-Identifier: Apache-2.0
#include "common/base/proc_maps.h"

#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>

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
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    if (std::optional<ProcMapping> m = parse_proc_mapping(std::string(line)))
      maps.push_back(std::move(*m));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return maps;
}

}  // namespace ckpt

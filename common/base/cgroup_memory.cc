// SPDX-License-Identifier: Apache-2.0
#include "common/base/cgroup_memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/proc/cgroups.h"

namespace ckpt {
namespace {

constexpr u64 kNoLimit = ~u64{0};

struct Version {
  bool (*is_of)(const proc::Cgroup &);
  std::string_view folder, limit, usage;
  std::string_view inactive, active;  // of memory.stat
};
constexpr Version kVersions[] = {
    {[](const proc::Cgroup &c) { return c.has("memory"); }, "/memory", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
    {[](const proc::Cgroup &c) { return c.is_version_2(); }, "", "memory.max", "memory.current",
     "inactive_file ", "active_file "},
};

// None: there is no number, for example "max".
std::optional<u64> number_in(std::string_view text) {
  u64 value = 0;
  auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// The group of this process; none: it is in none of this version.
std::optional<std::string> group_in(const std::vector<proc::Cgroup> &groups, const Version &v) {
  auto group = std::ranges::find_if(groups, v.is_of);
  return group == groups.end() ? std::nullopt : std::optional(group->path);
}

u64 droppable(std::string_view stat, const Version &v) {
  u64 bytes = 0;
  for (std::string_view name : {v.inactive, v.active})
    bytes += number_in(after_name(stat, name)).value_or(0);
  return bytes;
}

u64 left_in(const std::string &folder, const Version &v) {
  auto text_of = [&](std::string_view file) {
    Result<std::string> text = file_text(folder + "/" + std::string(file));
    return text ? *text : std::string();
  };
  std::optional<u64> limit = number_in(text_of(v.limit)), used = number_in(text_of(v.usage));
  if (!limit || !used) return kNoLimit;
  u64 kept = *used - std::min(*used, droppable(text_of("memory.stat"), v));
  return *limit - std::min(*limit, kept);
}

}  // namespace

// A group above may have a lower limit. In a container the group's own folder may be the root.
u64 memory_left_in_cgroup(const std::string &mounts, const std::string &membership) {
  u64 least = kNoLimit;
  std::string text = file_text(membership).value_or("");
  std::vector<proc::Cgroup> groups = proc::parse_cgroups(text);
  for (const Version &v : kVersions) {
    std::optional<std::string> group = group_in(groups, v);
    while (group) {
      least = std::min(least, left_in(mounts + std::string(v.folder) + *group, v));
      size_t slash = group->rfind('/');
      if (group->empty() || slash == std::string::npos) break;
      group->resize(slash);
    }
  }
  return least;
}

}  // namespace ckpt

// SPDX-License-Identifier: Apache-2.0
#include "common/proc/limits.h"

#include <algorithm>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {
namespace {

struct Resource {
  int number;
  std::string_view name;  // fs/proc/base.c, lnames
};

constexpr std::array kResources{
    Resource{RLIMIT_CPU, "Max cpu time"},
    Resource{RLIMIT_FSIZE, "Max file size"},
    Resource{RLIMIT_DATA, "Max data size"},
    Resource{RLIMIT_STACK, "Max stack size"},
    Resource{RLIMIT_CORE, "Max core file size"},
    Resource{RLIMIT_RSS, "Max resident set"},
    Resource{RLIMIT_NPROC, "Max processes"},
    Resource{RLIMIT_NOFILE, "Max open files"},
    Resource{RLIMIT_MEMLOCK, "Max locked memory"},
    Resource{RLIMIT_AS, "Max address space"},
    Resource{RLIMIT_LOCKS, "Max file locks"},
    Resource{RLIMIT_SIGPENDING, "Max pending signals"},
    Resource{RLIMIT_MSGQUEUE, "Max msgqueue size"},
    Resource{RLIMIT_NICE, "Max nice priority"},
    Resource{RLIMIT_RTPRIO, "Max realtime priority"},
    Resource{RLIMIT_RTTIME, "Max realtime timeout"},
};
static_assert(kResources.size() == RLIM_NLIMITS);

bool parse_value(std::string_view word, rlim_t &value) {
  value = RLIM_INFINITY;
  return word == "unlimited" || parse_number(word, value);
}

const Resource *resource_of(std::string_view line) {
  auto r = std::ranges::find_if(kResources, [line](const Resource &resource) {
    return line.starts_with(resource.name) && line.substr(resource.name.size()).starts_with(' ');
  });
  return r == kResources.end() ? nullptr : &*r;
}

}  // namespace

std::string_view name_of_limit(int resource) {
  auto r = std::ranges::find(kResources, resource, &Resource::number);
  return r == kResources.end() ? "" : r->name;
}

std::optional<Limits> parse_limits(std::string_view text) {
  Limits limits{};
  size_t found = 0;
  for (std::string_view line : lines_of(text)) {
    const Resource *r = resource_of(line);
    if (!r) continue;
    line.remove_prefix(r->name.size());
    rlimit &limit = limits[static_cast<size_t>(r->number)];
    if (!parse_value(next_word(line), limit.rlim_cur) ||
        !parse_value(next_word(line), limit.rlim_max))
      return std::nullopt;
    found++;
  }
  return found == limits.size() ? std::optional(limits) : std::nullopt;
}

Result<Limits> limits_of(pid_t pid) {
  CKPT_TRY(std::string text, read(pid, "limits"));
  std::optional<Limits> limits = parse_limits(text);
  return limits ? Result<Limits>(*limits) : fail("{} cannot be parsed", path(pid, "limits"));
}

}  // namespace ckpt::proc

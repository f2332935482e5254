// SPDX-License-Identifier: Apache-2.0
#include "helper/resource_limits.h"

#include <algorithm>
#include <charconv>

#include "common/base/file_text.h"
#include "common/proc/status.h"

namespace ckpt::helper {
namespace {

struct Resource {
  __rlimit_resource number;
  std::string_view name;  // in /proc/PID/limits (fs/proc/base.c, lnames)
  const char *unit_file;  // as systemd names it
};

constexpr std::array kResources{
    Resource{RLIMIT_CPU, "Max cpu time", "LimitCPU"},
    Resource{RLIMIT_FSIZE, "Max file size", "LimitFSIZE"},
    Resource{RLIMIT_DATA, "Max data size", "LimitDATA"},
    Resource{RLIMIT_STACK, "Max stack size", "LimitSTACK"},
    Resource{RLIMIT_CORE, "Max core file size", "LimitCORE"},
    Resource{RLIMIT_RSS, "Max resident set", "LimitRSS"},
    Resource{RLIMIT_NPROC, "Max processes", "LimitNPROC"},
    Resource{RLIMIT_NOFILE, "Max open files", "LimitNOFILE"},
    Resource{RLIMIT_MEMLOCK, "Max locked memory", "LimitMEMLOCK"},
    Resource{RLIMIT_AS, "Max address space", "LimitAS"},
    Resource{RLIMIT_LOCKS, "Max file locks", "LimitLOCKS"},
    Resource{RLIMIT_SIGPENDING, "Max pending signals", "LimitSIGPENDING"},
    Resource{RLIMIT_MSGQUEUE, "Max msgqueue size", "LimitMSGQUEUE"},
    Resource{RLIMIT_NICE, "Max nice priority", "LimitNICE"},
    Resource{RLIMIT_RTPRIO, "Max realtime priority", "LimitRTPRIO"},
    Resource{RLIMIT_RTTIME, "Max realtime timeout", "LimitRTTIME"},
};
static_assert(kResources.size() == RLIM_NLIMITS);

bool take_value(std::string_view &line, rlim_t &value) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  constexpr std::string_view kNone = "unlimited";
  if (line.starts_with(kNone)) {
    value = RLIM_INFINITY;
    line.remove_prefix(kNone.size());
    return true;
  }
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  return error == std::errc();
}

std::string value_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

Failure not_taken(const Resource &r, const rlimit &wanted) {
  Error e = fail_errno("ckpt-helper cannot take over the caller's limit \"{}\" ({}, at most {})",
                       r.name, value_text(wanted.rlim_cur), value_text(wanted.rlim_max))
                .value();
  e.hint = fmt::format(
      "it is higher than that of ckpt-helper: set {}=infinity in ckpt-helper.service", r.unit_file);
  return Failure(std::move(e));
}

// Whether anything was to be lowered.
Result<bool> lower_limits(pid_t pid, const Limits &most) {
  bool changed = false;
  for (const Resource &r : kResources) {
    rlimit now{};
    rlim_t highest = most[r.number].rlim_max;
    if (::prlimit(pid, r.number, nullptr, &now) == 0 && now.rlim_max <= highest) continue;
    rlimit lower{std::min(now.rlim_cur, highest), highest};
    if (::prlimit(pid, r.number, &lower, nullptr) == 0)
      changed = true;
    else if (errno != ESRCH)
      return fail_errno("cannot lower the limit \"{}\" of process {}", r.name, pid);
  }
  return changed;
}

}  // namespace

std::optional<Limits> parse_limits(std::string_view text) {
  Limits limits{};
  size_t found = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    auto r = std::ranges::find_if(kResources, [line](const Resource &resource) {
      return line.starts_with(std::string(resource.name) + ' ');
    });
    if (r == kResources.end()) continue;
    line.remove_prefix(r->name.size());
    rlimit &limit = limits[r->number];
    if (!take_value(line, limit.rlim_cur) || !take_value(line, limit.rlim_max)) return std::nullopt;
    found++;
  }
  return found == limits.size() ? std::optional(limits) : std::nullopt;
}

Result<Limits> limits_of(pid_t pid) {
  std::string path = fmt::format("/proc/{}/limits", pid);
  CKPT_TRY(std::string text, file_text(path));
  std::optional<Limits> limits = parse_limits(text);
  return limits ? Result<Limits>(*limits) : fail("{} cannot be parsed", path);
}

Result<> take_limits(const Limits &limits) {
  for (const Resource &r : kResources)
    if (r.number != RLIMIT_NOFILE && ::setrlimit(r.number, &limits[r.number]) != 0)
      return not_taken(r, limits[r.number]);
  return {};
}

// A process that starts meanwhile has the limits of its parent, which may be the old ones.
Result<> lower_limits_of_all(const Limits &most) {
  constexpr int kMostPasses = 100;
  for (int pass = 0; pass < kMostPasses; pass++) {
    bool lowered = false;
    for (pid_t pid : proc::processes()) {
      CKPT_TRY(bool changed, lower_limits(pid, most));
      lowered = lowered || changed;
    }
    if (!lowered) return {};
  }
  return fail("the program starts processes faster than their limits can be lowered");
}

}  // namespace ckpt::helper

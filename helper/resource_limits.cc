// SPDX-License-Identifier: Apache-2.0
#include "helper/resource_limits.h"

#include <algorithm>

#include "common/proc/status.h"

namespace ckpt::helper {
namespace {

struct Resource {
  __rlimit_resource number;
  const char *unit_file;  // as systemd names it
};

constexpr std::array kResources{
    Resource{RLIMIT_CPU, "LimitCPU"},           Resource{RLIMIT_FSIZE, "LimitFSIZE"},
    Resource{RLIMIT_DATA, "LimitDATA"},         Resource{RLIMIT_STACK, "LimitSTACK"},
    Resource{RLIMIT_CORE, "LimitCORE"},         Resource{RLIMIT_RSS, "LimitRSS"},
    Resource{RLIMIT_NPROC, "LimitNPROC"},       Resource{RLIMIT_NOFILE, "LimitNOFILE"},
    Resource{RLIMIT_MEMLOCK, "LimitMEMLOCK"},   Resource{RLIMIT_AS, "LimitAS"},
    Resource{RLIMIT_LOCKS, "LimitLOCKS"},       Resource{RLIMIT_SIGPENDING, "LimitSIGPENDING"},
    Resource{RLIMIT_MSGQUEUE, "LimitMSGQUEUE"}, Resource{RLIMIT_NICE, "LimitNICE"},
    Resource{RLIMIT_RTPRIO, "LimitRTPRIO"},     Resource{RLIMIT_RTTIME, "LimitRTTIME"},
};
static_assert(kResources.size() == RLIM_NLIMITS);

std::string value_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

Failure not_taken(const Resource &r, const rlimit &wanted) {
  Error e = fail_errno("ckpt-helper cannot take over the caller's limit \"{}\" ({}, at most {})",
                       proc::name_of_limit(r.number), value_text(wanted.rlim_cur),
                       value_text(wanted.rlim_max))
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
      return fail_errno("cannot lower the limit \"{}\" of process {}",
                        proc::name_of_limit(r.number), pid);
  }
  return changed;
}

}  // namespace

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

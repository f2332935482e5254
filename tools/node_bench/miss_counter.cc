// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/miss_counter.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ckpt::tools {

u64 extrapolated(u64 count, u64 enabled, u64 running) {
  if (running == 0 || running >= enabled) return count;
  double whole = static_cast<double>(count) * static_cast<double>(enabled);
  return static_cast<u64>(whole / static_cast<double>(running));
}

Result<MissCounter> MissCounter::start() {
  perf_event_attr event{};
  event.size = sizeof event;
  event.type = PERF_TYPE_HARDWARE;
  event.config = PERF_COUNT_HW_CACHE_MISSES;
  event.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  event.inherit = 1;
  event.exclude_kernel = 1;  // which users may not count (/proc/sys/kernel/perf_event_paranoid)
  event.exclude_hv = 1;
  UniqueFd fd(
      static_cast<int>(::syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!fd) return fail_errno("cannot open the processors' counter of cache misses");
  return MissCounter(std::move(fd));
}

Result<u64> MissCounter::misses() const {
  struct {
    u64 count, enabled, running;
  } counted{};
  if (::read(fd_.get(), &counted, sizeof counted) != sizeof counted)
    return fail_errno("cannot read the processors' counter of cache misses");
  if (counted.running == 0) return fail("the processors' counter of cache misses never ran");
  return extrapolated(counted.count, counted.enabled, counted.running);
}

}  // namespace ckpt::tools

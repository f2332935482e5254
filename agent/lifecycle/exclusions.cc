// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/exclusions.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "agent/ipc/proc_maps.h"
#include "common/base/log.h"
#include "common/base/rounded_up.h"

namespace ckpt::agent {

void Exclusions::add(const void *address, size_t bytes) {
  u64 begin = reinterpret_cast<u64>(address);
  std::scoped_lock lock(mutex_);
  ranges_.push_back({begin, begin + bytes});
}

bool Exclusions::remove(const void *address, size_t bytes) {
  u64 begin = reinterpret_cast<u64>(address);
  std::scoped_lock lock(mutex_);
  auto it = std::ranges::find(ranges_, Range{begin, begin + bytes});
  if (it == ranges_.end()) return false;
  ranges_.erase(it);
  return true;
}

void Exclusions::drop_pages() const {
  std::scoped_lock lock(mutex_);
  if (ranges_.empty()) return;
  Result<std::vector<ProcMapping>> maps = own_mappings();
  if (!maps)
    return log::warn("memory of ckpt_exclude() will be saved nevertheless: {}", maps.error().what);
  const u64 page = static_cast<u64>(::sysconf(_SC_PAGESIZE));
  for (const Range &r : ranges_)
    for (const ProcMapping &m : *maps) {
      u64 begin = std::max(rounded_up(r.begin, page), m.begin);  // whole pages inside
      u64 end = std::min(r.end / page * page, m.end);
      if (begin < end && m.private_anonymous())
        ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
    }
}

}  // namespace ckpt::agent

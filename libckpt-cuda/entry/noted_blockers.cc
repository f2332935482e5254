// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/noted_blockers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <set>

namespace ckpt::cuda {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct NotedBlockers {
  std::mutex mutex;
  std::map<const char *, Id> first_call;  // by what it did
  std::set<std::string> newer;            // names of entries
};
NotedBlockers &noted_blockers() {
  static NotedBlockers *const kNoted = new NotedBlockers;
  return *kNoted;
}

}  // namespace

void note_blocker(Id id, const char *what) {
  std::lock_guard lock(noted_blockers().mutex);
  noted_blockers().first_call.emplace(what, id);
}

void note_newer_call(const char *name) {
  std::lock_guard lock(noted_blockers().mutex);
  noted_blockers().newer.insert(name);
}

void append_noted_blockers(std::vector<std::string> &reasons) {
  std::lock_guard lock(noted_blockers().mutex);
  for (auto &[what, id] : noted_blockers().first_call)
    reasons.push_back(
        fmt::format("{} ({}), which cannot be checkpointed", what, entry_info(id).symbol));
  if (!noted_blockers().newer.empty())
    reasons.push_back(fmt::format(
        "it has called {} of a CUDA driver that is newer than this ckpt, which knows CUDA {}.{}: "
        "use a newer ckpt, or an older CUDA runtime or library",
        fmt::join(noted_blockers().newer, ", "), kKnownVersion / 1000, kKnownVersion % 1000 / 10));
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/blockers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <set>

#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/lifecycle/streams.h"
#include "libckpt-cuda/memory/managed_memory.h"

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

void append_managed_memory(std::vector<std::string> &reasons) {
  if (u64 bytes = managed_memory().driver_bytes())
    reasons.push_back(fmt::format(
        "the program has {} bytes of managed memory (cuMemAllocManaged), which the driver's "
        "checkpoint does not keep: start it with ckpt-run --managed-memory=kept, or free that "
        "memory first",
        bytes));
  if (std::string name = code_facts().managed_variable; !name.empty())
    reasons.push_back(fmt::format(
        "the program's code has the managed variable {}, which the driver's checkpoint does not "
        "keep: use a __device__ variable and copies instead",
        name));
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

void append_blockers(std::vector<std::string> &reasons) {
  append_managed_memory(reasons);
  if (capturing())
    reasons.push_back("a stream is being captured into a graph: try again after the capture");
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

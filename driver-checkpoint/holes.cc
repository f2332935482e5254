// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/holes.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "common/base/clock.h"
#include "common/base/driver_files.h"
#include "common/proc/file.h"

namespace ckpt::cuda {
namespace {

constexpr std::chrono::seconds kPatience{5};

bool is_shared(const ProcMapping &m) { return m.permissions.ends_with("s"); }

// Without access, and of no file: what a placeholder is, the driver's or ours.
bool covered_by_placeholder(const std::vector<ProcMapping> &all, u64 begin, u64 end) {
  return std::ranges::any_of(all, [&](const ProcMapping &m) {
    return m.begin <= begin && m.end >= end && m.permissions == "---p" && m.inode == 0;
  });
}

bool still_there(const std::vector<ProcMapping> &all, const ProcMapping &old) {
  return std::ranges::any_of(all, [&](const ProcMapping &m) {
    return m.begin <= old.begin && m.end >= old.end && is_shared(m) && m.inode == old.inode;
  });
}

// NORESERVE: CRIU makes every private mapping writable for a moment, where memory without it is
// charged.
bool place(u64 begin, u64 end) {
  void *at = reinterpret_cast<void *>(begin);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void *p = ::mmap(at, end - begin, PROT_NONE, kFlags, -1, 0);
  if (p == at) return true;
  if (p != MAP_FAILED) ::munmap(p, end - begin);  // a kernel that does not know the flag
  return false;
}

}  // namespace

void Holes::note() {
  before_ = proc::mappings_of(proc::kSelf);
  std::erase_if(before_,
                [](const ProcMapping &m) { return !is_shared(m) || !is_cuda_device_file(m.path); });
}

Result<> Holes::fill() {
  std::vector<ProcMapping> after = proc::mappings_of(proc::kSelf);
  std::erase_if(before_, [&](const ProcMapping &m) {
    return still_there(after, m) || covered_by_placeholder(after, m.begin, m.end);
  });
  for (Clock::time_point end = Clock::now() + kPatience; !before_.empty();) {
    std::erase_if(before_, [&](const ProcMapping &m) {
      bool placed = place(m.begin, m.end);
      if (placed) placed_.push_back({m.begin, m.end});
      return placed;
    });
    if (Clock::now() >= end) break;
    if (!before_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (before_.empty()) return {};
  return fail_with_hint(
      fmt::format("the program has mapped memory at {:#x}, where the CUDA driver wants its device "
                  "back",
                  before_.front().begin),
      "try again; a newer driver keeps these addresses itself");
}

void Holes::release() {
  std::vector<ProcMapping> now = proc::mappings_of(proc::kSelf);
  for (const Range &r : placed_)
    if (covered_by_placeholder(now, r.begin, r.end))
      ::munmap(reinterpret_cast<void *>(r.begin), r.end - r.begin);
  placed_.clear();
}

}  // namespace ckpt::cuda

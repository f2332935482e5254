// SPDX-License-Identifier: Apache-2.0
#include "common/base/huge_pages.h"
#include "common/base/units.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

namespace ckpt {
namespace {

constexpr size_t kPageBytes = 4096;
// Debian 12's headers have no name for it.
constexpr int kCollapse = 25;

// The part of a range that huge pages can have.
std::span<std::byte> aligned_part(std::span<std::byte> memory) {
  size_t skip = -reinterpret_cast<uintptr_t>(memory.data()) % kHugePageBytes;
  if (memory.size() < skip + kHugePageBytes) return {};
  return memory.subspan(skip, (memory.size() - skip) / kHugePageBytes * kHugePageBytes);
}

// Where this fails, the pages stay small.
void make_huge(std::span<std::byte> memory) {
  for (size_t at = 0; at < memory.size(); at += kHugePageBytes)
    if (::madvise(memory.data() + at, kPageBytes, MADV_POPULATE_WRITE) != 0) return;
  (void)::madvise(memory.data(), memory.size(), kCollapse);
}

}  // namespace

Result<> populate(std::span<std::byte> memory) {
  if (std::span<std::byte> part = aligned_part(memory); !part.empty()) make_huge(part);
  return map_pages(memory);
}

Result<> map_pages(std::span<std::byte> memory) {
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return {};
  return fail_errno("cannot get {} of host memory", mebibytes_needed(memory.size()));
}

}  // namespace ckpt

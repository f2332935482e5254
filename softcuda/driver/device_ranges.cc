// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/device_ranges.h"

#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#include "softcuda/driver/strict.h"

namespace ckpt::softcuda::driver {
namespace {

struct Range {
  void *at;
  size_t bytes;
};
std::vector<Range> ranges;

// Sizes that programs also map, so that a hole is soon found.
constexpr size_t kSizes[] = {4096, 16 << 10, 64 << 10, 64 << 10, 1 << 20, 4 << 20};

void *map_shared(void *at, size_t bytes, int fixed) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | fixed, -1, 0);
}

}  // namespace

void map_device_ranges() {
  if (!strict()) return;
  for (size_t bytes : kSizes)
    if (void *at = map_shared(nullptr, bytes, 0); at != MAP_FAILED) ranges.push_back({at, bytes});
}

void unmap_device_ranges() {
  bool placeholders = std::getenv("CKPT_SOFTCUDA_PLACEHOLDERS") != nullptr;
  for (const Range &r : ranges) {
    if (placeholders)
      (void)mmap(r.at, r.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                 -1, 0);
    else
      munmap(r.at, r.bytes);
  }
}

bool map_device_ranges_again() {
  for (const Range &r : ranges)
    if (map_shared(r.at, r.bytes, MAP_FIXED) == MAP_FAILED) return false;
  return true;
}

}  // namespace ckpt::softcuda::driver

// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/device_ranges.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "softcuda/broker/device_file.h"

namespace ckpt::softcuda::driver {
namespace {

struct Range {
  void *at;
  size_t bytes;
};
std::vector<Range> ranges;
// A driver has several descriptors of its devices.
UniqueFd files[2];
bool nvml_was_open = false;

// Sizes that programs also map, so that a hole is soon found.
constexpr size_t kSizes[] = {4096, 16 << 10, 64 << 10, 64 << 10, 1 << 20, 4 << 20};

bool open_files() {
  files[0] = open_device_file(std::accumulate(std::begin(kSizes), std::end(kSizes), size_t{0}));
  files[1] = UniqueFd(::fcntl(files[0].get(), F_DUPFD_CLOEXEC, 0));
  return files[0] && files[1];
}

void *map_shared(void *at, size_t bytes, size_t offset, int fixed) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, files[0].get(),
              static_cast<off_t>(offset));
}

}  // namespace

void map_device_ranges() {
  if (!strict() || !open_files()) return;
  size_t offset = 0;
  for (size_t bytes : kSizes) {
    void *at = map_shared(nullptr, bytes, offset, 0);
    if (at != MAP_FAILED) ranges.push_back({at, bytes});
    offset += bytes;
  }
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
  for (UniqueFd &file : files) file.reset();
  nvml_was_open = close_nvml_file() || nvml_was_open;
}

bool map_device_ranges_again() {
  if (!strict()) return true;
  if (!open_files()) return false;
  size_t offset = 0;
  for (const Range &r : ranges) {
    if (map_shared(r.at, r.bytes, offset, MAP_FIXED) == MAP_FAILED) return false;
    offset += r.bytes;
  }
  if (std::exchange(nvml_was_open, false)) open_nvml_file();
  return true;
}

}  // namespace ckpt::softcuda::driver

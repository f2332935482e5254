// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/host_memory.h"

#include <map>
#include <mutex>

namespace ckpt::cuda {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct HostMemory {
  std::mutex mutex;
  std::map<u64, u64> ends;  // by their beginning
};
HostMemory &host_memory() {
  static HostMemory *const kMemory = new HostMemory;
  return *kMemory;
}

u64 address_of(const void *p) { return reinterpret_cast<u64>(p); }

}  // namespace

void note_host_memory(const void *p, u64 bytes) {
  std::lock_guard lock(host_memory().mutex);
  host_memory().ends[address_of(p)] = address_of(p) + bytes;
}

void forget_host_memory(const void *p) {
  std::lock_guard lock(host_memory().mutex);
  host_memory().ends.erase(address_of(p));
}

bool has_host_memory(u64 begin, u64 end) {
  std::lock_guard lock(host_memory().mutex);
  auto it = host_memory().ends.lower_bound(end);
  return it != host_memory().ends.begin() && std::prev(it)->second > begin;
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Page-locked memory of the program. It is ordinary memory, as no device can reach it. It is
// recorded, because programs ask what a pointer is, and because a device gets a copy of what is
// mapped (shared_memory.h).
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

struct HostRange {
  u64 base = 0, bytes = 0;
  unsigned flags = 0;
  bool registered = false;  // the program's own memory
  u64 context = 0;
  u64 device = 0;  // the device's address; 0: it is not mapped
};

class HostMemory {
 public:
  // ALREADY_REGISTERED: some of these bytes are known.
  CUresult add(const HostRange &range);
  void set_device(u64 base, u64 device);
  // `registered`: as it was added.
  CUresult remove(u64 base, bool registered, HostRange &out);
  std::vector<HostRange> all() const;
  std::optional<HostRange> find(u64 address) const;

 private:
  mutable std::mutex mutex_;
  std::map<u64, HostRange> all_;
};

HostMemory &host_memory();

}  // namespace ckpt::remote::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Page-locked memory of the program. It is ordinary memory, as no device can reach it; it is only
// recorded, because programs ask what a pointer is.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {

struct HostRange {
  u64 base = 0, bytes = 0;
  unsigned flags = 0;
  bool registered = false;  // the program's own memory
  u64 context = 0;
};

class HostMemory {
 public:
  CUresult allocate(u64 bytes, unsigned flags, void **out);
  CUresult add_registered(u64 base, u64 bytes, unsigned flags);
  // `registered`: as add_registered() made it.
  CUresult remove(u64 base, bool registered);
  std::optional<HostRange> find(u64 address) const;

 private:
  mutable std::mutex mutex_;
  std::map<u64, HostRange> all_;
};

HostMemory &host_memory();

}  // namespace ckpt::remote::cuda

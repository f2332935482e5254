// SPDX-License-Identifier: Apache-2.0
//
// What the program does that keeps it from being checkpointed, now or for ever.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "libckpt-cuda/driver.h"

namespace ckpt::cuda {

// Managed memory that lives.
class Managed {
 public:
  void insert(CUdeviceptr p, u64 bytes);
  void erase(CUdeviceptr p);
  u64 bytes() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> any_{false};  // ever: most programs have none, and free a lot
  std::map<CUdeviceptr, u64> all_;
};
Managed &managed();

// Streams that record a graph.
bool capturing();
// Host functions of the program that the driver is running now.
int host_calls_running();

// Everything that note_use() has heard, and what is above.
void reasons_against(std::vector<std::string> &reasons);

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// What the program does that keeps it from being checkpointed, now or for ever.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// Managed memory that lives: the driver's, or memory of the host that devices reach, which stands
// for it where the user has asked for that.
class Managed {
 public:
  static bool wanted_on_host();
  void insert(CUdeviceptr p, u64 bytes, bool on_host);
  // True if there was some on the host, which is the caller's to free.
  bool erase(CUdeviceptr p);
  bool on_host(CUdeviceptr p) const;
  u64 bytes_of_driver() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> any_{false};  // ever: most programs have none, and free a lot
  struct Piece {
    u64 bytes;
    bool on_host;
  };
  std::map<CUdeviceptr, Piece> all_;
};
Managed &managed();

// Streams that record a graph.
bool capturing();
// Host functions of the program that the driver is running now.
int host_calls_running();
// The last one that ends closes the gate, before anything new comes in.
void close_gate_behind_host_calls(bool wanted);

// Everything that note_use() has heard, and what is above.
void reasons_against(std::vector<std::string> &reasons);

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Copies between devices and host memory. Several copies are in flight at a time, in several
// streams of each context by turns; they are completed in the order in which they began.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

// Page-locks host memory, for all contexts. False: the driver refuses. From any thread.
bool lock_pages(CUcontext context, void *memory, u64 bytes);
void unlock_pages(CUcontext context, void *memory);

// Host memory, page-locked while this lives, so that devices access it directly (DMA). Where the
// driver refuses, copies are only slower.
class PinnedMemory {
 public:
  PinnedMemory(CUcontext context, void *memory, u64 bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory &) = delete;

 private:
  CUcontext context_;
  void *memory_ = nullptr;  // null: not page-locked
};

// Not thread-safe.
class Transfer {
 public:
  // Called when the copy has ended well. Its error ends the transfer.
  using Done = std::function<Result<>()>;
  Transfer() = default;
  // Waits for copies still in flight; their Done is not called.
  ~Transfer();
  Transfer(const Transfer &) = delete;

  Result<> to_host(CUcontext context, void *host, u64 device, u64 bytes, Done done);
  Result<> to_device(CUcontext context, u64 device, const void *host, u64 bytes, Done done);
  Result<> zero(CUcontext context, u64 device, u64 bytes);
  // Waits until all copies have ended and all Done were called.
  Result<> drain();

 private:
  static constexpr size_t kStreamsPerContext = 4;
  static constexpr size_t kMostInFlight = 8;
  struct Copy {
    CUcontext context;
    CUevent event;  // recorded behind it
    Done done;
  };
  template <class Start>
  Result<> start(CUcontext context, Done done, Start start_copy);
  Result<CUstream> next_stream(CUcontext context);
  Result<> complete_oldest();

  std::map<CUcontext, std::vector<CUstream>> streams_;
  size_t turn_ = 0;
  std::deque<Copy> in_flight_;
};

}  // namespace ckpt::cuda

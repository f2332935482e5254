// SPDX-License-Identifier: Apache-2.0
//
// Bytes between devices and staging memory: several copies are under way at a time, each in a
// stream of its own turn, and their ends are heard in the order in which they began.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "libckpt-cuda/memory/contexts.h"

namespace ckpt::cuda {

// Host memory that the devices read and write by themselves while this lives. Where the driver does
// not take it, copies work all the same.
class Pinned {
 public:
  Pinned(CUcontext context, void *memory, u64 bytes);
  ~Pinned();
  Pinned(const Pinned &) = delete;

 private:
  CUcontext context_;
  void *memory_ = nullptr;
};

class Transfer {
 public:
  using Done = std::function<Result<>()>;
  Transfer() = default;
  ~Transfer();
  Transfer(const Transfer &) = delete;

  Result<> to_host(CUcontext context, void *host, u64 device, u64 bytes, Done done);
  Result<> to_device(CUcontext context, u64 device, const void *host, u64 bytes, Done done);
  // Until all have ended, and their `done` has been called.
  Result<> drain();

 private:
  static constexpr size_t kStreams = 4;
  static constexpr size_t kUnderWay = 8;
  struct Lane {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
  };
  struct Copy {
    CUcontext context;
    CUevent event;
    Done done;
  };
  Result<Lane *> next_lane(CUcontext context);
  Result<> sent(Lane &lane, CUresult e, Done done);
  Result<> end_oldest();

  std::map<CUcontext, std::vector<Lane>> lanes_;
  size_t turn_ = 0;
  std::deque<Copy> under_way_;
};

}  // namespace ckpt::cuda

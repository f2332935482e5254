// SPDX-License-Identifier: Apache-2.0
//
// Copies held device memory into a file in host memory, in a thread, and tells a tool how much of
// it is there.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "agent/transfer/direct_memory.h"
#include "agent/transfer/pieces_ahead.h"
#include "driver-checkpoint/owner/held_memory.h"

namespace ckpt::cuda {

class Drain : agent::PageLocker {
 public:
  Drain(OwnerDriver &driver, const HeldMemory &held) : driver_(driver), held_(held) {}

  // Refuses copies beyond the memory that is held, or beyond the file. Returns when they have
  // begun.
  Result<> begin(std::unique_ptr<agent::DirectMemory> file, UniqueFd tool,
                 std::vector<OwnerCopy> copies);
  // Returns when they have ended, well or not. At once where none has begun.
  void wait();

 private:
  struct Copy {
    CUcontext context;
    CUevent event;
  };
  void lock_pages(std::span<std::byte> memory) override;
  void unlock_pages(std::span<std::byte> memory) override;
  Result<> check(const OwnerCopy &copy) const;
  void run();
  Result<> copy_all();
  Result<> start(const OwnerCopy &copy, agent::PiecesAhead &ahead);
  Result<CUstream> stream_in(CUcontext context);
  Result<> complete_oldest();
  void tell(u64 done) const;
  void wait_for_tool() const;

  OwnerDriver &driver_;
  const HeldMemory &held_;
  std::unique_ptr<agent::DirectMemory> file_;
  UniqueFd tool_;
  std::vector<OwnerCopy> copies_;
  std::map<CUcontext, std::vector<CUstream>> streams_;
  std::deque<Copy> in_flight_;
  u64 started_ = 0, completed_ = 0;
  std::promise<void> ended_;
  std::future<void> end_;
};

}  // namespace ckpt::cuda

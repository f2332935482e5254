// SPDX-License-Identifier: Apache-2.0
//
// Copies held device memory into a file in host memory, in a thread, and tells a tool how much of
// it is there. With device copies (device_copies.h) the program may have its memory again
// meanwhile.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "agent/transfer/direct_memory.h"
#include "agent/transfer/pieces_ahead.h"
#include "driver-checkpoint/owner/device_copies.h"
#include "driver-checkpoint/owner/held_memory.h"

namespace ckpt::cuda {

class Drain : agent::PageLocker {
 public:
  Drain(OwnerDriver &driver, const HeldMemory &held) : driver_(driver), held_(held) {}

  // Refuses copies beyond the memory that is held, or beyond the file. Returns, when they have
  // begun, how many bytes have no device copy.
  Result<u64> begin(std::unique_ptr<agent::DirectMemory> file, UniqueFd tool,
                    const std::vector<OwnerCopy> &copies, bool device_copies);
  // Returns when nothing is copied from the held memory any more. At once where no copy has begun.
  void wait_for_held();
  // Returns when the copies have ended, well or not, or no tool waits for them any more.
  void wait();

 private:
  struct Copy {
    DueCopy what;
    CUevent event;
  };
  void lock_pages(std::span<std::byte> memory) override;
  void unlock_pages(std::span<std::byte> memory) override;
  Result<DueCopy> due(const OwnerCopy &copy) const;
  u64 bytes_to_host_first() const;
  void run();
  Result<> copy_all();
  Result<> copy_on_device();
  Result<> synchronize() const;
  Result<> start(const DueCopy &copy, agent::PiecesAhead &ahead);
  Result<CUstream> stream_in(CUcontext context);
  Result<> complete_oldest();
  Result<> complete_all();
  void leave_held();
  bool tell(u64 done) const;
  bool is_wanted() const;
  void wait_for_tool() const;

  OwnerDriver &driver_;
  const HeldMemory &held_;
  std::unique_ptr<agent::DirectMemory> file_;
  UniqueFd tool_;
  std::vector<DueCopy> copies_;
  size_t first_on_device_ = 0;  // the copies from this one on have a device copy
  std::map<CUcontext, std::vector<CUstream>> streams_;
  std::deque<Copy> in_flight_;
  u64 started_ = 0, completed_ = 0;
  bool held_left_ = false;
  std::promise<void> leaving_, ended_;
  std::future<void> left_, end_;
};

}  // namespace ckpt::cuda

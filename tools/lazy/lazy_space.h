// SPDX-License-Identifier: Apache-2.0
//
// The address space of one process that misses contents: its userfaultfd, and what is owed. The
// process changes its memory meanwhile, and the kernel tells (ioctl_userfaultfd(2), UFFD_EVENT_…):
// it waits until the event was read, and refuses to place pages before (EAGAIN). So a
// thread that reads the events in order, and places the pages itself, never places one at an old
// address.
#pragma once

#include <linux/userfaultfd.h>

#include <functional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/lazy/arrival.h"
#include "tools/lazy/owed_map.h"

namespace ckpt::tools {

class LazySpace {
 public:
  using Read = std::function<Result<>(u64 offset, std::span<std::byte> out)>;

  // `arrival`: what all spaces of the program together miss and have.
  LazySpace(UniqueFd fd, OwedMap owed, Read read, Arrival &arrival)
      : fd_(std::move(fd)), owed_(std::move(owed)), read_(std::move(read)), arrival_(&arrival) {}

  int fd() const { return fd_.get(); }
  // Nothing is owed any more, or the process has ended.
  bool finished() const { return gone_ || (owed_.empty() && waiting_.empty()); }
  // Faults wait until the process has changed its memory.
  bool has_waiting() const { return !waiting_.empty(); }

  // Reads what the kernel says, and serves faults. Spaces of forked children go to `forked`.
  Result<> serve(std::vector<LazySpace> &forked);
  // Places the next contents, at most `bytes`.
  Result<> place_next(u64 bytes);

 private:
  Result<> take_message(const uffd_msg &message, std::vector<LazySpace> &forked);
  Result<> serve_fault(u64 page);
  Result<> place(u64 begin, u64 bytes);
  void wake(u64 page);

  UniqueFd fd_;
  OwedMap owed_;
  Read read_;
  Arrival *arrival_;
  std::vector<u64> waiting_;  // pages of faults, while the memory changes
  bool gone_ = false;
};

}  // namespace ckpt::tools

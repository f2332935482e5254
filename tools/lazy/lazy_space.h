// SPDX-License-Identifier: Apache-2.0
//
// The address space of one process that misses contents: its userfaultfd, and what is owed. The
// process changes its memory meanwhile, and the kernel tells (ioctl_userfaultfd(2), UFFD_EVENT_…):
// it waits until the event was read, and refuses to place pages before (EAGAIN). So a
// thread that reads the events in order, and places the pages itself, never places one at an old
// address.
#pragma once

#include <linux/userfaultfd.h>

#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/lazy/arrival.h"
#include "tools/lazy/owed_map.h"
#include "tools/lazy/page_source.h"

namespace ckpt::tools {

class LazySpace {
 public:
  // `arrival`: what all spaces of the program together miss and have.
  LazySpace(UniqueFd fd, OwedMap owed, PageSource source, Arrival &arrival)
      : fd_(std::move(fd)),
        owed_(std::move(owed)),
        source_(std::move(source)),
        arrival_(&arrival) {}

  int fd() const { return fd_.get(); }
  // Nothing is owed any more, or the process has ended.
  bool finished() const { return gone_ || (owed_.empty() && waiting_.empty()); }
  // Faults wait until the process has changed its memory.
  bool has_waiting() const { return !waiting_.empty(); }

  // Reads what the kernel says, and serves faults. Spaces of forked children go to `forked`.
  Result<> serve(std::vector<LazySpace> &forked);
  // Whether it has waited for a page since the last call.
  bool has_waited() { return std::exchange(waited_, false); }

  // What is placed next, although the process does not wait for it, begins behind the page for
  // which it waited last. Names at most `count` chunks.
  std::vector<u32> next_chunks(size_t count) const;
  // Whether place_next() waits for no chunk, and has something to place.
  bool has_next() const;
  // Places the pages of one chunk.
  Result<> place_next();

 private:
  Result<> take_message(const uffd_msg &message, std::vector<LazySpace> &forked);
  Result<> serve_fault(u64 page);
  std::optional<u64> next_page() const;
  PageRun run_at(const OwedPiece &piece, u64 page) const;
  Result<> place_around(u64 page);
  Result<> place(u64 begin, ByteView contents);
  void wake(u64 page);

  UniqueFd fd_;
  OwedMap owed_;
  PageSource source_;
  Arrival *arrival_;
  std::vector<u64> waiting_;  // pages of faults, while the memory changes
  u64 next_ = 0;              // place_next() begins here
  bool waited_ = false, gone_ = false;
};

}  // namespace ckpt::tools

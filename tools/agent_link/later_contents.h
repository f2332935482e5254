// SPDX-License-Identifier: Apache-2.0
//
// Contents that another process writes into the agent's file after the save: the owner of a
// program's device memory (driver-checkpoint/owner/memory_owner.h), or a proxy
// (libckpt-ocl/proxy/serve/ owed_contents.h), which goes on when the program runs again. A thread
// follows it: while the driver checkpoints and CRIU works, the image's workers compress what is
// there already.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/write/image_writer.h"

namespace ckpt::tools {

class LaterContents {
 public:
  struct Due {
    storage::StreamId stream;
    u64 offset = 0, bytes = 0;
    u64 at = 0;  // in the file
  };

  explicit LaterContents(UniqueFd owner) : owner_(std::move(owner)) {}
  ~LaterContents();
  LaterContents(const LaterContents &) = delete;

  void add(const Due &due) { all_.push_back(due); }
  // Calls `take` in the thread, for one after the other, when they are in the file.
  Result<> start(std::function<Result<>(const Due &)> take);
  // Returns when `take` has returned for all of them.
  Result<> wait();
  // Whether wait() would return at once, with success.
  bool have_come() const { return come_; }
  // That process has ended, and it is not known yet whether it had copied everything.
  bool in_doubt() const;
  // From another thread: wait() fails.
  void cancel() const;
  // The image is complete and the program has ended: returns when the owner has ended, too, and the
  // devices are free.
  void drop() const;

 private:
  Result<> follow();
  Result<u64> next_count(u64 before) const;

  const UniqueFd owner_;
  std::vector<Due> all_;
  std::function<Result<>(const Due &)> take_;
  std::thread thread_;
  std::atomic<bool> come_{false};
  Result<> outcome_;  // of the thread
};

}  // namespace ckpt::tools

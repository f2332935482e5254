// SPDX-License-Identifier: Apache-2.0
//
// Gives a running program the memory that it is owed: a page that it waits for at once, the rest
// behind, beginning with what stands after that page. Each chunk of the image is checked before its
// bytes are used. If one is damaged, the program is ended: it waits for the page until then, also
// in a system call.
//
// One thread in the keeper's process reads what the kernel reports and places pages; others decode
// the next chunks for it (chunks_ahead.h). lazy_guard.h says what happens if that process dies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"
#include "tools/lazy/chunks_ahead.h"
#include "tools/lazy/lazy_space.h"
#include "tools/lazy/owed_memory.h"

namespace ckpt::tools {

class PageServer {
 public:
  // `failed` is called once, in the server's thread, and ends the program. Until it has returned
  // the program reads nothing.
  PageServer(const storage::ImageReader &image, std::function<void(Error)> failed)
      : image_(image), failed_(std::move(failed)), ahead_(image) {}
  ~PageServer();

  // For a process that is stopped, by its PID here. `fd`: its userfaultfd. Before start().
  Result<> add(pid_t pid, UniqueFd fd, const OwedProcess &owed);
  Result<> start();
  // From now on the rest is loaded, too. Waits until it has arrived, and calls `waits` ten times a
  // second meanwhile.
  Result<> load_rest(const std::function<void()> &waits);
  const Arrival &arrival() const { return arrival_; }

 private:
  void run();
  Result<> serve();
  Result<> turn();
  Result<> wait_for_events();
  void wake();

  const storage::ImageReader &image_;
  std::function<void(Error)> failed_;
  ChunksAhead ahead_;
  Arrival arrival_;
  std::vector<LazySpace> spaces_;
  UniqueFd wake_;
  std::atomic<bool> load_ = false, stop_ = false;
  bool loads_ = false;  // a part of the rest was placed
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;  // the server's thread ends
  Result<> result_;
  std::thread thread_;
};

}  // namespace ckpt::tools

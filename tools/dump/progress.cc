// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/progress.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "common/base/shortage.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

}  // namespace

Result<DumpReport> with_progress(Dump &dump, bool quiet) {
  if (quiet) return dump.run();
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  Result<std::thread> painter = start_thread([&] {
    std::unique_lock lock(mutex);
    // The memory of the processes is known; how much of it is saved, and the device memory, are
    // not.
    Progress bar("dump", false, Total::Estimate);
    while (!changed.wait_for(lock, kRedrawInterval, [&] { return over; })) {
      u64 expected = dump.bytes_expected();
      bar.update(std::min(dump.bytes_done(), expected), expected);
    }
  });
  if (!painter) return Failure(std::move(painter).error());
  Result<DumpReport> r = guarded([&] { return dump.run(); });
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_one();
  painter->join();
  return r;
}

}  // namespace ckpt::tools

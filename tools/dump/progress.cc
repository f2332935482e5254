// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/progress.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace ckpt {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(100);
constexpr int kWidth = 30;

void draw(const Dump &dump) {
  u64 expected = std::max<u64>(dump.bytes_expected(), 1),
      done = std::min(dump.bytes_done(), expected);
  int filled = static_cast<int>(done * kWidth / expected);
  fmt::print(stderr, "\r{:<10} [{:#<{}}{: <{}}] {:>7.1f} MiB\x1b[K", dump.phase(), "", filled, "",
             kWidth - filled, static_cast<double>(done) / (1 << 20));
}

}  // namespace

Result<DumpReport> with_progress(Dump &dump, bool quiet) {
  if (quiet || !::isatty(STDERR_FILENO)) return dump.run();
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread painter([&] {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kEvery, [&] { return over; })) draw(dump);
    fmt::print(stderr, "\r\x1b[K");
  });
  Result<DumpReport> r = dump.run();
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_one();
  painter.join();
  return r;
}

}  // namespace ckpt

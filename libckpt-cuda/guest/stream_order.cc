// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/stream_order.h"

#include <condition_variable>
#include <mutex>
#include <set>

#include "libckpt-cuda/entry/pass.h"

namespace ckpt::cuda::guest {
namespace {

// Never destroyed: threads may launch while the process ends.
struct Busy {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<StreamKey> streams;
};
Busy &busy() {
  static auto *const kBusy = new Busy;
  return *kBusy;
}

}  // namespace

StreamOrder::StreamOrder(const ContextTools &context, CUstream stream)
    : key_(&context, stream,
           stream == CU_STREAM_PER_THREAD ? std::this_thread::get_id() : std::thread::id()) {
  Busy &b = busy();
  auto take = [&] {
    std::lock_guard lock(b.mutex);
    return b.streams.insert(key_).second;
  };
  while (!take())
    gate().outside([&] {
      std::unique_lock lock(b.mutex);
      b.changed.wait(lock, [&] { return !b.streams.contains(key_); });
      return true;
    });
}

StreamOrder::~StreamOrder() {
  Busy &b = busy();
  {
    std::lock_guard lock(b.mutex);
    b.streams.erase(key_);
  }
  b.changed.notify_all();
}

}  // namespace ckpt::cuda::guest

// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/lane.h"

namespace ckpt::remote::cuda {
namespace {

constexpr size_t kMaxWaitingBytes = 64u << 20;

}  // namespace

Lane::Lane(std::function<void(ByteView)> execute)
    : execute_(std::move(execute)), thread_([this] { run(); }) {}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void Lane::push(Bytes call, bool one_way) {
  std::unique_lock lock(mutex_);
  taken_.wait(lock, [&] { return bytes_ < kMaxWaitingBytes; });
  bytes_ += call.size();
  one_way_ += one_way;
  items_.push_back({std::move(call), one_way});
  if (items_.size() == 1) given_.notify_one();
}

void Lane::wait_for_one_way() {
  std::unique_lock lock(mutex_);
  taken_.wait(lock, [&] { return one_way_ == 0; });
}

void Lane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [&] { return !items_.empty() || ending_; });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    execute_(item.call);
    lock.lock();
    bytes_ -= item.call.size();
    one_way_ -= item.one_way;
    if (one_way_ == 0 || bytes_ < kMaxWaitingBytes) taken_.notify_all();
  }
}

}  // namespace ckpt::remote::cuda

// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/chunks_ahead.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/shortage.h"

namespace ckpt::tools {

ChunksAhead::~ChunksAhead() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread &t : threads_) t.join();
}

Result<> ChunksAhead::start(unsigned threads) {
  event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return fail_errno("cannot create an eventfd");
  for (unsigned i = 0; i < threads; i++) {
    CKPT_TRY(std::thread thread, start_thread([this] { work(); }));
    threads_.push_back(std::move(thread));
  }
  return {};
}

bool ChunksAhead::is_wanted(u32 chunk) const {
  return std::ranges::find(wanted_, chunk) != wanted_.end();
}

void ChunksAhead::drop_unwanted() {
  std::erase_if(decoded_, [this](const auto &d) { return d.second->done && !is_wanted(d.first); });
}

void ChunksAhead::want(std::vector<u32> chunks) {
  std::lock_guard lock(mutex_);
  if (chunks == wanted_) return;
  wanted_ = std::move(chunks);
  drop_unwanted();
  changed_.notify_all();
}

bool ChunksAhead::has(u32 chunk) {
  std::lock_guard lock(mutex_);
  if (taken_.second && taken_.first == chunk) return true;
  auto it = decoded_.find(chunk);
  return it != decoded_.end() && it->second->done;
}

Result<ByteView> ChunksAhead::take(u32 chunk) {
  Lock lock(mutex_);
  if (!taken_.second || taken_.first != chunk) {
    auto it = decoded_.find(chunk);
    taken_ = {chunk, it == decoded_.end() ? decode(chunk, lock) : it->second};
  }
  const Decoded &d = *taken_.second;
  changed_.wait(lock, [&] { return d.done; });
  CKPT_CHECK(d.result);
  return ByteView(d.bytes.get(), d.size);
}

std::optional<u32> ChunksAhead::next() const {
  for (u32 chunk : wanted_)
    if (!decoded_.contains(chunk)) return chunk;
  return std::nullopt;
}

void ChunksAhead::work() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || next(); });
    if (stop_) return;
    decode(*next(), lock);
  }
}

// Unlocks meanwhile.
std::shared_ptr<ChunksAhead::Decoded> ChunksAhead::decode(u32 chunk, Lock &lock) {
  auto d = std::make_shared<Decoded>();
  decoded_[chunk] = d;
  lock.unlock();
  Result<> result = guarded([&] { return read(chunk, *d); });
  lock.lock();
  d->result = std::move(result);
  d->done = true;
  drop_unwanted();
  changed_.notify_all();
  u64 one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
  return d;
}

Result<> ChunksAhead::read(u32 chunk, Decoded &to) const {
  to.size = image_.index().chunks[chunk].raw_size;
  to.bytes = std::make_unique_for_overwrite<std::byte[]>(to.size);
  return image_.read_chunk(chunk, {to.bytes.get(), to.size});
}

}  // namespace ckpt::tools

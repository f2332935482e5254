// SPDX-License-Identifier: Apache-2.0
#include "agent/store_lanes.h"

#include <algorithm>
#include <system_error>

#include "common/cores.h"
#include "common/log.h"

namespace ckpt {
namespace {

// Memory of a host takes what this many threads write.
constexpr unsigned kMostThreads = 8;

}  // namespace

StoreLanes::StoreLanes(const Staging &staging) {
  for (u32 i = staging.slots(); i-- > 0;) free_.push_back(i);
}

// The agent's thread has all signals blocked; so have its children.
void StoreLanes::start() {
  try {
    for (unsigned i = std::min(usable_cores(), kMostThreads); i > 0; i--)
      threads_.emplace_back([this] { run(); });
  } catch (const std::system_error &) {
    log::debug("device memory is kept by {} threads, there are no more", threads_.size());
  }
}

void StoreLanes::stop() {
  {
    std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  todo_.notify_all();
  for (std::thread &t : threads_) t.join();
}

void StoreLanes::run() {
  Lock lock(mutex_);
  for (;;) {
    todo_.wait(lock, [this] { return stop_ || has_work(); });
    if (stop_) return;
    work_once(lock);
  }
}

void StoreLanes::work_once(Lock &lock) {
  running_++;
  Result<> done = work(lock);
  running_--;
  if (!done && !error_) error_ = std::move(done).error();
  done_.notify_all();
}

// ---- saves

StoreSink::StoreSink(Store &store, Staging &staging, std::string prefix)
    : StoreLanes(staging), store_(store), staging_(staging), prefix_(std::move(prefix)) {
  start();
}

Result<u32> StoreSink::region(const std::string &name, u64 bytes) {
  names_.push_back(prefix_ + name);
  CKPT_CHECK(store_.region(names_.back(), bytes));
  return static_cast<u32>(names_.size() - 1);
}

Result<Slot> StoreSink::acquire() {
  Lock lock(mutex_);
  CKPT_CHECK(wait(lock, [this] { return !free_.empty() || idle(); }));
  if (free_.empty()) return fail("every slot of staging memory is in use");
  Slot slot = staging_.slot(free_.back());
  free_.pop_back();
  return slot;
}

Result<> StoreSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  if (region >= names_.size()) return fail("region {} was never named", region);
  CKPT_TRY(u64 at, store_.place(names_[region], offset, bytes));
  std::scoped_lock lock(mutex_);
  writes_.push_back({at, slot, bytes});
  todo_.notify_one();
  return {};
}

Result<> StoreSink::finish() {
  Lock lock(mutex_);
  return wait(lock, [this] { return idle(); });
}

Result<> StoreSink::work(Lock &lock) {
  Write w = writes_.front();
  writes_.pop_front();
  lock.unlock();
  Result<> done = store_.write(w.at, {w.slot.data, w.bytes});
  lock.lock();
  free_.push_back(w.slot.index);
  return done;
}

// ---- loads

StoreSource::StoreSource(const Store &store, Staging &staging, const std::string &prefix)
    : StoreLanes(staging),
      store_(store),
      staging_(staging),
      prefix_bytes_(prefix.size()),
      regions_(store.regions(prefix)) {
  std::erase_if(regions_, [](const Store::Region &r) { return r.bytes == 0; });
  start();
}

Result<bool> StoreSource::next(Piece &piece) {
  Lock lock(mutex_);
  CKPT_CHECK(wait(lock, [this] { return !ready_.empty() || idle(); }));
  if (ready_.empty() && at_ < regions_.size())
    return fail("every slot of staging memory is in use");
  if (ready_.empty()) return false;
  piece = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

Result<> StoreSource::release(Slot slot) {
  std::scoped_lock lock(mutex_);
  free_.push_back(slot.index);
  todo_.notify_one();
  return {};
}

Result<> StoreSource::work(Lock &lock) {
  const Store::Region &r = regions_[at_];
  Piece piece{r.name.substr(prefix_bytes_), offset_, staging_.slot(free_.back()),
              static_cast<u32>(std::min<u64>(slot_bytes(), r.bytes - offset_))};
  u64 from = r.at + offset_;
  free_.pop_back();
  offset_ += piece.bytes;
  if (offset_ == r.bytes) at_++, offset_ = 0;
  lock.unlock();
  Result<> done = store_.read(from, {piece.slot.data, piece.bytes});
  lock.lock();
  if (done) ready_.push_back(std::move(piece));
  return done;
}

}  // namespace ckpt

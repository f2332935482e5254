// SPDX-License-Identifier: Apache-2.0
//
// Saves into a store and loads out of it, alone, for a suspended program. One thread cannot fill
// new memory as fast as a device delivers (some 5 GB/s against 25 to 50), so there are several, for
// as long as the object lives; what they do is done by the caller where the system gives no thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/store.h"

namespace ckpt {

// Threads and slots, the same for both directions.
class StoreLanes {
 public:
  explicit StoreLanes(const Staging &staging);

 protected:
  using Lock = std::unique_lock<std::mutex>;
  // At the end of the derived class's constructor: work() needs all of it.
  void start();
  // At the begin of its destructor: what is waiting is dropped.
  void stop();
  virtual ~StoreLanes() = default;

  // Whether there is something to do for a thread, and doing it; without the lock meanwhile.
  virtual bool has_work() const = 0;
  virtual Result<> work(Lock &lock) = 0;
  // Until `condition` holds or something failed.
  template <class Condition>
  Result<> wait(Lock &lock, Condition condition) {
    while (!error_ && !condition())
      threads_.empty() && has_work() ? work_once(lock) : done_.wait(lock);
    if (error_) return Failure(*error_);
    return {};
  }
  void work_once(Lock &lock);
  bool idle() const { return running_ == 0 && !has_work(); }

  mutable std::mutex mutex_;
  std::vector<u32> free_;  // slots
  std::condition_variable todo_, done_;

 private:
  void run();

  std::vector<std::thread> threads_;
  unsigned running_ = 0;
  bool stop_ = false;
  std::optional<Error> error_;
};

class StoreSink final : public Sink, private StoreLanes {
 public:
  // All must outlive this.
  StoreSink(Store &store, Staging &staging, std::string prefix);
  ~StoreSink() override { stop(); }
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<u32> region(const std::string &name, u64 bytes) override;
  Result<Slot> acquire() override;
  Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) override;
  // After the last put(): all of it is in the store.
  Result<> finish();

 private:
  struct Write {
    u64 at;
    Slot slot;
    u32 bytes;
  };
  bool has_work() const override { return !writes_.empty(); }
  Result<> work(Lock &lock) override;

  Store &store_;
  Staging &staging_;
  std::string prefix_;
  std::vector<std::string> names_;
  std::deque<Write> writes_;
};

class StoreSource final : public Source, private StoreLanes {
 public:
  StoreSource(const Store &store, Staging &staging, const std::string &prefix);
  ~StoreSource() override { stop(); }
  int staging_fd() const override { return staging_.fd(); }
  u32 slot_bytes() const override { return staging_.slot_bytes(); }
  u32 slot_count() const override { return staging_.slots(); }
  Result<bool> next(Piece &piece) override;
  Result<> release(Slot slot) override;

 private:
  bool has_work() const override { return !free_.empty() && at_ < regions_.size(); }
  Result<> work(Lock &lock) override;

  const Store &store_;
  Staging &staging_;
  size_t prefix_bytes_;
  std::vector<Store::Region> regions_;  // none is empty
  size_t at_ = 0;                       // the region of the next piece
  u64 offset_ = 0;                      // in it
  std::deque<Piece> ready_;
};

}  // namespace ckpt

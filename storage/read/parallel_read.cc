// SPDX-License-Identifier: Apache-2.0
//
// The functions of ImageReader that use several threads: for_each_chunk() and verify().
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>

#include "common/base/cores.h"
#include "storage/chunk/decode_scratch.h"
#include "storage/io/parallel.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {
namespace {

unsigned threads_for(u64 chunks, unsigned wanted) {
  return static_cast<unsigned>(std::clamp<u64>(chunks, 1, wanted ? wanted : usable_cores()));
}

// Gives the numbers 0 to count - 1 to threads, until one of them fails. Keeps the first error.
class Tickets {
 public:
  explicit Tickets(u64 count) : count_(count) {}

  bool take(u64 &ticket) {
    ticket = next_++;
    return ticket < count_ && !failed_;
  }
  // Waits until all earlier tickets are done(). Returns false after a failure.
  bool wait_for_turn(u64 ticket) {
    std::unique_lock lock(mutex_);
    turn_changed_.wait(lock, [&] { return turn_ == ticket || failed_; });
    return !failed_;
  }
  void done() {
    std::lock_guard lock(mutex_);
    ++turn_;
    turn_changed_.notify_all();
  }
  void fail_with(Error error) {
    std::lock_guard lock(mutex_);
    if (!failed_) result_ = Failure(std::move(error));
    failed_ = true;
    turn_changed_.notify_all();
  }
  Result<> result() && { return std::move(result_); }

 private:
  const u64 count_;
  std::atomic<u64> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::condition_variable turn_changed_;
  u64 turn_ = 0;
  Result<> result_;
};

// Collects the damaged chunks that all threads find, and calls the progress function.
class VerifyState {
 public:
  VerifyState(u64 total, const ImageReader::Progress &progress)
      : total_(total), progress_(progress) {}

  void add(u32 chunk, u64 bytes, Result<> result) {
    std::lock_guard lock(mutex_);
    done_ += bytes;
    if (!result) add_damage(chunk, std::move(result).error());
    if (progress_) progress_(done_, total_);
  }
  ImageReader::VerifyReport report() && {
    ImageReader::VerifyReport out{count_, {}};
    for (auto &[chunk, what] : damages_) out.damages.push_back(std::move(what));
    return out;
  }

 private:
  // Keeps the first kMaxDamages in the order of the chunk table.
  void add_damage(u32 chunk, Error error) {
    ++count_;
    damages_.emplace(chunk, std::move(error.what));
    if (damages_.size() > ImageReader::kMaxDamages) damages_.erase(std::prev(damages_.end()));
  }

  std::mutex mutex_;
  const u64 total_;
  const ImageReader::Progress &progress_;
  u64 done_ = 0;
  u64 count_ = 0;
  std::map<u32, std::string> damages_;
};

}  // namespace

Result<> ImageReader::for_each_chunk(const StreamEntry &stream, Order order, const ChunkFn &fn,
                                     unsigned threads) const {
  Tickets tickets(stream.chunks.size());
  auto one = [&](u64 i, DecodeScratch &scratch) -> Result<> {
    std::span<std::byte> raw{scratch.raw.get(), index_.chunks[stream.chunks[i]].raw_size};
    CKPT_CHECK(decode_named(stream.chunks[i], scratch, raw));
    if (order == Order::Ascending && !tickets.wait_for_turn(i)) return {};
    CKPT_CHECK(fn(stream.starts[i], raw));
    tickets.done();
    return {};
  };
  run_parallel(threads_for(stream.chunks.size(), threads), [&](unsigned) {
    std::unique_ptr<DecodeScratch> scratch = take_scratch();
    scratch->cached.reset();
    for (u64 i; tickets.take(i);)
      if (auto ok = one(i, *scratch); !ok) tickets.fail_with(std::move(ok).error());
    give_scratch(std::move(scratch));
  });
  return std::move(tickets).result();
}

Result<> ImageReader::check_chunk(u32 chunk, Depth depth, DecodeScratch &scratch) const {
  const ChunkEntry &entry = index_.chunks[chunk];
  Result<ByteView> stored = load(entry, scratch);
  if (!stored) return damaged(chunk, std::move(stored).error());
  if (depth == Depth::Stored) return {};
  std::span<std::byte> raw{scratch.raw.get(), entry.raw_size};
  if (auto ok = unpack(entry, *stored, scratch, raw); !ok)
    return damaged(chunk, std::move(ok).error());
  if (entry.codec == Codec::Delta)
    if (auto ok = add_base(entry, scratch, raw); !ok) return damaged(chunk, std::move(ok).error());
  if (chunk_address(raw, index_.seed) != entry.address)
    return damaged(chunk, {"wrong address: damaged", {}});
  return {};
}

ImageReader::VerifyReport ImageReader::verify(Depth depth, const Progress &progress,
                                              unsigned threads) const {
  u64 total = 0;
  for (const ChunkEntry &c : index_.chunks) total += c.raw_size;
  VerifyState state(total, progress);
  Tickets tickets(index_.chunks.size());
  run_parallel(threads_for(index_.chunks.size(), threads), [&](unsigned) {
    std::unique_ptr<DecodeScratch> scratch = take_scratch();
    scratch->cached.reset();
    for (u64 i; tickets.take(i);) {
      u32 chunk = static_cast<u32>(i);
      state.add(chunk, index_.chunks[chunk].raw_size, check_chunk(chunk, depth, *scratch));
    }
    give_scratch(std::move(scratch));
  });
  return std::move(state).report();
}

Result<> ImageReader::VerifyReport::result() const {
  if (ok()) return {};
  if (damaged_chunks == 1) return fail("{}", damages[0]);
  return fail("{} chunks are damaged; the first is {}", damaged_chunks, damages[0]);
}

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
//
// The functions of ImageReader that use several threads: for_each_chunk() and verify().
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>

#include "common/base/cores.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"
#include "storage/chunk/chunk_codec.h"
#include "storage/chunk/decode_scratch.h"
#include "storage/format/hash.h"
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
  // The number of damaged chunks, and the first kMaxDamages in the order of the chunk table. Only
  // these are named, because naming a chunk searches all streams.
  u64 count() const { return count_; }
  std::map<u32, Error> damages() && { return std::move(damages_); }

 private:
  void add_damage(u32 chunk, Error error) {
    ++count_;
    damages_.emplace(chunk, std::move(error));
    if (damages_.size() > ImageReader::kMaxDamages) damages_.erase(std::prev(damages_.end()));
  }

  std::mutex mutex_;
  const u64 total_;
  const ImageReader::Progress &progress_;
  u64 done_ = 0;
  u64 count_ = 0;
  std::map<u32, Error> damages_;
};

// The zero chunks of an image, the shortest first.
std::vector<u32> zeros_by_size(const std::vector<ChunkEntry> &chunks) {
  std::vector<u32> out;
  for (size_t i = 0; i < chunks.size(); ++i)
    if (chunks[i].codec == Codec::Zero) out.push_back(static_cast<u32>(i));
  std::ranges::sort(out, {}, [&](u32 chunk) { return chunks[chunk].raw_size; });
  return out;
}

// Checks all chunks of zeros. An image may have millions of them, and they store
// nothing, so their number bounds the cost and not their size: one pass over the zeros of the
// longest chunk gives the hash of every shorter one.
void check_zeros(const Index &index, VerifyState &state) {
  static constexpr std::byte kZeros[64u << 10]{};
  Xxh3_128 hash(index.seed);
  u32 hashed = 0;
  XXH128_hash_t address = hash.value();
  for (u32 chunk : zeros_by_size(index.chunks)) {
    const ChunkEntry &entry = index.chunks[chunk];
    bool is_longer = hashed < entry.raw_size;
    for (size_t n; hashed < entry.raw_size; hashed += static_cast<u32>(n)) {
      n = std::min<size_t>(entry.raw_size - hashed, sizeof kZeros);
      hash.add(ByteView(kZeros).first(n));
    }
    if (is_longer) address = hash.value();
    if (entry.stored_checksum != stored_checksum({}))
      state.add(chunk, 0, fail("wrong checksum: damaged"));
    else if (entry.address != ChunkAddress{address.low64, address.high64})
      state.add(chunk, 0, fail("wrong address: damaged"));
  }
}

}  // namespace

Result<> ImageReader::for_each_chunk(const StreamEntry &stream, Order order, const ChunkFn &fn,
                                     unsigned threads, Zeros zeros) const {
  Tickets tickets(stream.chunks.size());
  auto one = [&](u64 i, DecodeScratch &scratch) -> Result<> {
    const ChunkEntry &entry = index_.chunks[stream.chunks[i]];
    bool skipped = zeros == Zeros::Skip && entry.codec == Codec::Zero;
    std::span<std::byte> raw{scratch.raw.get(), entry.raw_size};
    if (!skipped) CKPT_CHECK(decode_named(stream.chunks[i], scratch, raw));
    if (order == Order::Ascending && !tickets.wait_for_turn(i)) return {};
    if (!skipped) CKPT_CHECK(fn(stream.starts[i], raw));
    tickets.done();
    return {};
  };
  run_parallel(threads_for(stream.chunks.size(), threads), [&](unsigned) {
    std::unique_ptr<DecodeScratch> scratch = take_scratch();
    scratch->cached.reset();
    for (u64 i; tickets.take(i);)
      if (auto ok = guarded([&] { return one(i, *scratch); }); !ok)
        tickets.fail_with(std::move(ok).error());
    give_scratch(std::move(scratch));
  });
  return std::move(tickets).result();
}

// The error does not name the chunk.
Result<> ImageReader::check_chunk(u32 chunk, Depth depth, DecodeScratch &scratch) const {
  const ChunkEntry &entry = index_.chunks[chunk];
  if (depth == Depth::Full && entry.codec == Codec::Zero) return {};  // see check_zeros()
  CKPT_TRY(ByteView stored, load(entry, scratch));
  if (depth == Depth::Stored) return {};
  std::span<std::byte> raw{scratch.raw.get(), entry.raw_size};
  CKPT_CHECK(unpack(entry, stored, scratch, raw));
  if (entry.codec == Codec::Delta) CKPT_CHECK(add_base(entry, scratch, raw));
  if (chunk_address(raw, index_.seed) != entry.address) return fail("wrong address: damaged");
  return {};
}

ImageReader::VerifyReport ImageReader::verify(Depth depth, const Progress &progress,
                                              unsigned threads) const {
  u64 total = 0;
  for (const ChunkEntry &c : index_.chunks) total += c.raw_size;
  VerifyState state(total, progress);
  if (depth == Depth::Full) check_zeros(index_, state);
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
  VerifyReport report{state.count(), {}};
  for (auto &[chunk, error] : std::move(state).damages())
    report.damages.push_back(damaged(chunk, std::move(error)).value().what);
  return report;
}

Result<> ImageReader::VerifyReport::result() const {
  if (ok()) return {};
  if (damaged_chunks == 1) return fail("{}", damages[0]);
  return fail("{} chunks are damaged; the first is {}", damaged_chunks, damages[0]);
}

}  // namespace ckpt::storage

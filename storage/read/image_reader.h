// SPDX-License-Identifier: Apache-2.0
//
// Reads one image. An image is hostile input: whatever its bytes are, reading ends with the right
// bytes or with an error that names the file and the stream, in bounded memory. No file is mapped,
// so one that shrinks causes an error and not a signal.
//
// After open(), everything is const and thread-safe. Memory: the index (at most kMaxIndexBytes, and
// about the same again for its tables), and three chunks for each reading thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "storage/chunk/chunk_files.h"
#include "storage/format/format.h"
#include "storage/format/image_stats.h"
#include "storage/format/key.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

struct DecodeScratch;

struct ReadOptions {
  const Key *key = nullptr;  // for an encrypted image; copied
  // Prevents this image and its parents from being pruned while the reader exists.
  bool hold = false;
  // Refuses an image, or a parent, that a user other than this one and root owns or can change.
  bool only_own = false;
  FileSystem *file_system = nullptr;  // null: the real one
};

class ImageReader {
 public:
  // Called by one thread at a time. Counts the raw bytes of distinct chunks.
  using Progress = std::function<void(u64 done, u64 total)>;
  using ChunkFn = std::function<Result<>(u64 offset, ByteView bytes)>;
  enum class Order { Any, Ascending };
  enum class Depth { Stored, Full };
  enum class Zeros { Pass, Skip };  // chunks of zeros

  struct VerifyReport {
    u64 damaged_chunks = 0;
    std::vector<std::string> damages;  // at most kMaxDamages, in the order of the chunk table
    bool ok() const { return damaged_chunks == 0; }
    // An error with the first damage and the number of damaged chunks, or success.
    Result<> result() const;
  };
  static constexpr size_t kMaxDamages = 32;

  // `path` is the image's folder. Reads and checks the index, and checks that the chunks.ckpt of
  // the image and of each parent has the right header and size. Does not read chunks.
  static Result<std::unique_ptr<ImageReader>> open(const std::string &path,
                                                   const ReadOptions &options = {});
  ~ImageReader();

  const nlohmann::json &manifest() const { return manifest_; }  // an object
  const Index &index() const { return index_; }
  const std::vector<StreamEntry> &streams() const { return index_.streams; }
  ImageStats stats() const;
  const std::string &path() const { return path_; }

  // Null if there is no such stream.
  const StreamEntry *find(std::string_view name) const;

  // Fills `out` with the stream's bytes from `offset`. Fails if the stream is too short. Whole
  // chunks are decoded directly into `out`.
  Result<> read(const StreamEntry &stream, u64 offset, std::span<std::byte> out) const;

  // Passes a whole stream to `fn`, chunk by chunk, decoded by `threads` threads (0: all cores).
  // Order::Any: several threads call fn at once. Order::Ascending: one call at a time, in order,
  // while the other threads decode ahead. Stops at the first error, of fn or of the reader.
  Result<> for_each_chunk(const StreamEntry &stream, Order order, const ChunkFn &fn,
                          unsigned threads = 0, Zeros zeros = Zeros::Pass) const;

  // Reads every stored byte of the chunks that this image uses, those of its parents included.
  // Depth::Stored compares the checksums of the stored bytes, which is cheap enough before a
  // restore. Depth::Full also decodes every chunk and compares its address.
  VerifyReport verify(Depth depth, const Progress &progress = {}, unsigned threads = 0) const;

  // Fills `stored` (entry.stored_size bytes) with the stored bytes of a chunk, to copy them into
  // another image. Compares their checksum.
  Result<> read_stored(u32 chunk, std::span<std::byte> stored) const;
  // Fills `raw` (entry.raw_size bytes) with the raw bytes of a chunk.
  Result<> read_chunk(u32 chunk, std::span<std::byte> raw) const;

 private:
  ImageReader(std::string path, const ReadOptions &options);
  Result<> open_index(int folder, bool only_own);
  Error loss_named(int folder, Error error) const;
  std::string streams_of(u32 chunk) const;
  Failure damaged(u32 chunk, Error error) const;

  Result<ByteView> load(const ChunkEntry &entry, DecodeScratch &scratch) const;
  Result<> unpack(const ChunkEntry &entry, ByteView stored, DecodeScratch &scratch,
                  std::span<std::byte> raw) const;
  Result<> decode(const ChunkEntry &entry, DecodeScratch &scratch, std::span<std::byte> raw) const;
  Result<> add_base(const ChunkEntry &entry, DecodeScratch &scratch,
                    std::span<std::byte> raw) const;
  Result<> decode_named(u32 chunk, DecodeScratch &scratch, std::span<std::byte> raw) const;
  Result<ByteView> decode_cached(u32 chunk, DecodeScratch &scratch) const;
  Result<size_t> read_part(const StreamEntry &stream, u64 offset, std::span<std::byte> out,
                           DecodeScratch &scratch) const;
  Result<> check_chunk(u32 chunk, Depth depth, DecodeScratch &scratch) const;
  std::unique_ptr<DecodeScratch> take_scratch() const;
  void give_scratch(std::unique_ptr<DecodeScratch> scratch) const;

  const std::string path_;
  FileSystem &fs_;
  std::optional<Key> key_;
  ChunkFiles files_;
  Index index_;
  nlohmann::json manifest_;
  std::unordered_map<std::string_view, size_t> by_name_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<DecodeScratch>> free_scratch_;
};

}  // namespace ckpt::storage

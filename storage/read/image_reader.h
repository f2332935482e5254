// SPDX-License-Identifier: Apache-2.0
//
// Reads one image. An image is hostile input: whatever its bytes are, reading ends with right bytes
// or with an error that names the file and the stream, in bounded memory. Nothing is mapped, so a
// file that shrinks meanwhile is an error and not a signal.
//
// Everything is const and thread-safe after open(). Memory: the index (at most kMaxIndexBytes, and
// about as much again for its tables), and for each reading thread three chunks.
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

struct DecodeScratch;  // what a thread needs for decoding

struct ReadOptions {
  const Key *key = nullptr;  // of an encrypted image; copied
  // Keeps this image and its parents from being pruned until the reader goes.
  bool hold = false;
  FileSystem *file_system = nullptr;  // null: the real one
};

class ImageReader {
 public:
  // Called by one thread at a time; bytes of the image's raw, different chunks.
  using Progress = std::function<void(u64 done, u64 total)>;
  using ChunkFn = std::function<Result<>(u64 offset, ByteView bytes)>;
  enum class Order { Any, Ascending };
  enum class Depth { Stored, Full };

  struct VerifyReport {
    u64 damaged_chunks = 0;
    std::vector<std::string> damages;  // at most kMaxDamages, in the order of the file
    bool ok() const { return damaged_chunks == 0; }
    // The first damage, and how many there are, as an error.
    Result<> result() const;
  };
  static constexpr size_t kMaxDamages = 32;

  // `path` is the image's folder. Reads the whole index, checks it, and that chunks.ckpt belongs to
  // it and has its length, and the same for each parent; not what the chunks hold.
  static Result<std::unique_ptr<ImageReader>> open(const std::string &path,
                                                   const ReadOptions &options = {});
  ~ImageReader();

  const nlohmann::json &manifest() const { return manifest_; }  // an object
  const Index &index() const { return index_; }
  const std::vector<StreamEntry> &streams() const { return index_.streams; }
  ImageStats stats() const;
  const std::string &path() const { return path_; }

  // Null: there is no such stream.
  const StreamEntry *find(std::string_view name) const;

  // Fills `out` with the stream's bytes from `offset`; fails where the stream ends before. Whole
  // chunks are decoded in place.
  Result<> read(const StreamEntry &stream, u64 offset, std::span<std::byte> out) const;

  // Hands a whole stream to `fn`, chunk by chunk, decoded by `threads` threads (0: all cores).
  // Order::Any: fn is called by several threads at once; Order::Ascending: one call at a time, in
  // order, while the other threads decode ahead. The first error, fn's or ours, ends it.
  Result<> for_each_chunk(const StreamEntry &stream, Order order, const ChunkFn &fn,
                          unsigned threads = 0) const;

  // Reads every stored byte with all cores. Depth::Stored compares the checksums of what is stored
  // (cheap: before a restore); Depth::Full decodes too and compares every chunk's address.
  // A parent's chunks are read too, as far as this image uses them.
  VerifyReport verify(Depth depth, const Progress &progress = {}, unsigned threads = 0) const;

  // Fills `stored` (of entry.stored_size bytes) as it is on the disk, its checksum compared: for
  // copying chunks from image to image.
  Result<> read_stored(u32 chunk, std::span<std::byte> stored) const;
  // Fills `raw` (of entry.raw_size bytes) with what the chunk holds.
  Result<> read_chunk(u32 chunk, std::span<std::byte> raw) const;

 private:
  ImageReader(std::string path, const ReadOptions &options);
  Result<> open_index(int folder);
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

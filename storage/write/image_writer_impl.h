// SPDX-License-Identifier: Apache-2.0
//
// The state of an ImageWriter. image_writer.cc opens and finishes the image,
// image_writer_streams.cc fills its streams.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <set>

#include "storage/io/destination.h"
#include "storage/write/block_pool.h"
#include "storage/write/image_writer.h"
#include "storage/write/parent_chunks.h"
#include "storage/write/workers.h"
#include "storage/write/written_stream.h"

namespace ckpt::storage {

class ImageWriter::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const std::string &path, const Options &options);
  static Result<std::unique_ptr<Impl>> create_in_pipe(int fd, const Options &options);
  ~Impl();

  Result<StreamId> stream(const std::string &name, Cut cut);
  Result<> reuse(StreamId id, const std::string &parent_stream, u64 size);
  Result<> append(StreamId id, ByteView data);
  Result<std::span<std::byte>> room(StreamId id);
  Result<> commit(StreamId id, size_t size);
  Result<> close(StreamId id);
  bool copies_puts() const { return copy_puts_; }
  Result<> put(StreamId id, u64 offset, ByteView data, std::function<void()> done, bool copy);
  Result<> put_known(StreamId id, u64 offset, u32 size, const ChunkAddress &address);
  Result<> finish(const nlohmann::json &manifest);
  void abandon();
  ImageStats stats() const { return store_->stats(); }
  const Uuid &uuid() const { return index_.uuid; }
  u64 seed() const { return index_.seed; }
  const ImageReader *parent() const { return parent_ ? &parent_->image() : nullptr; }

 private:
  using Mode = WrittenStream::Mode;

  explicit Impl(const Options &options);
  Result<> start(const Options &options);
  Result<> start_workers(const Options &options);
  Result<> open_parent(const std::string &path, const Options &options);

  Result<WrittenStream *> find(StreamId id);
  Result<> set_mode(WrittenStream &stream, Mode mode);
  std::shared_ptr<void> copied(ByteView &raw);
  void cut_tail(WrittenStream &stream, bool is_end);
  void submit_piece(WrittenStream &stream, const Piece &piece);
  void submit_rest(WrittenStream &stream);
  void submit(WrittenStream &stream, u64 chunk, ByteView raw, std::optional<DeltaBase> similar,
              std::shared_ptr<void> held);
  void store_chunk(WrittenStream &stream, u64 chunk, ByteView raw,
                   const std::optional<DeltaBase> &similar, unsigned worker);

  Result<> collect_streams(const std::vector<u32> &renumbered);
  Result<> finish_all(const nlohmann::json &manifest);

  void set_error(Error error);
  Result<> first_error() const;

  const bool copy_puts_;
  std::optional<Key> key_;
  std::unique_ptr<ParentChunks> parent_;
  std::unique_ptr<Destination> destination_;
  Index index_;
  std::unique_ptr<ChunkStore> store_;
  std::vector<std::unique_ptr<ChunkStore::Encoders>> encoders_;  // one for each worker
  BlockPool blocks_{BlockPool::kSlabBytes}, copies_{kChunkBytes};
  // Protects the members below and the streams, except what belongs to the appending thread.
  mutable std::mutex mutex_;
  std::deque<WrittenStream> streams_;
  u64 places_ = 0;  // see WrittenStream::claim()
  std::set<std::string, std::less<>> names_;
  Error error_;
  std::atomic<bool> failed_ = false;
  bool finished_ = false;
  std::unique_ptr<Workers> workers_;  // last, because its tasks use the other members
};

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/write/image_writer.h"

#include <array>
#include <atomic>
#include <deque>
#include <set>

#include <nlohmann/json.hpp>

#include "common/base/cores.h"
#include "storage/format/index.h"
#include "storage/format/manifest.h"
#include "storage/format/stream_name.h"
#include "storage/format/uuid.h"
#include "storage/io/destination.h"
#include "storage/ops/prune.h"
#include "storage/write/block_pool.h"
#include "storage/write/parent_chunks.h"
#include "storage/write/workers.h"
#include "storage/write/written_stream.h"

namespace ckpt::storage {
namespace {

constexpr size_t kLeastMemory = 32u << 20, kMemoryOfThread = 4u << 20;

using Cut = ImageWriter::Cut;
using Stream = WrittenStream;
using Mode = Stream::Mode;

// An append() that ends a stream copies what is at most this long, for it may wait long.
constexpr size_t kSmallBytes = kChunkBytes / 8;
static_assert(kMaxCutBytes <= kChunkBytes && 2 * kChunkBytes <= BlockPool::kSlabBytes);

// Calls done() when the last chunk of a put() lets go of it.
struct Completion {
  explicit Completion(std::function<void()> f) : done(std::move(f)) {}
  Completion(const Completion &) = delete;
  ~Completion() {
    if (done) done();
  }
  std::function<void()> done;
};

}  // namespace

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
  Result<> put(StreamId id, u64 offset, ByteView data, std::function<void()> done);
  Result<> finish(const nlohmann::json &manifest);
  void abandon();
  ImageStats stats() const { return store_->stats(); }
  const Uuid &uuid() const { return index_.uuid; }
  const ImageReader *parent() const { return parent_ ? &parent_->image() : nullptr; }

 private:
  explicit Impl(const Options &options);
  Result<> start(const Options &options);
  Result<> open_parent(const std::string &path, const Options &options);

  Result<Stream *> find(StreamId id);
  Result<> set_mode(Stream &stream, Mode mode);
  std::shared_ptr<void> copied(ByteView &raw);
  void cut_tail(Stream &stream, bool is_end);
  void take_piece(Stream &stream, const Piece &piece);
  void submit_rest(Stream &stream);
  void submit(Stream &stream, u64 chunk, ByteView raw, std::optional<DeltaBase> like,
              std::shared_ptr<void> held);
  void store_chunk(Stream &stream, u64 chunk, ByteView raw, const std::optional<DeltaBase> &like,
                   unsigned worker);

  Result<> collect_streams(const std::vector<u32> &renumbered);
  Result<> finish_all(const nlohmann::json &manifest);

  void set_error(Error error);
  Result<> sticky() const;

  const bool copy_puts_;
  std::optional<Key> key_;
  std::unique_ptr<ParentChunks> parent_;
  std::unique_ptr<Destination> destination_;
  Index index_;
  std::unique_ptr<ChunkStore> store_;
  std::vector<std::unique_ptr<ChunkStore::Tools>> tools_;  // one a worker
  BlockPool blocks_{BlockPool::kSlabBytes}, copies_{kChunkBytes};
  mutable std::mutex mutex_;  // what follows, but for the tails
  std::deque<Stream> streams_;
  std::set<std::string, std::less<>> names_;
  Error error_;
  std::atomic<bool> failed_ = false;
  bool finished_ = false;
  std::unique_ptr<Workers> workers_;  // last: its tasks use all the others
};

ImageWriter::Impl::Impl(const Options &options) : copy_puts_(options.copy_puts) {
  if (options.key) key_ = *options.key;
}

Result<std::unique_ptr<ImageWriter::Impl>> ImageWriter::Impl::create(const std::string &path,
                                                                     const Options &options) {
  std::unique_ptr<Impl> impl(new Impl(options));
  FileSystem &fs = options.file_system ? *options.file_system : FileSystem::real();
  if (!options.parent.empty()) CKPT_CHECK(impl->open_parent(path, options));
  if (options.overwrite)
    CKPT_CHECK(check_not_a_parent(path, {.key = options.key, .file_system = options.file_system}));
  CKPT_TRY(impl->destination_, FolderDestination::create(path, options.overwrite, fs));
  CKPT_CHECK(impl->start(options));
  return impl;
}

Result<std::unique_ptr<ImageWriter::Impl>> ImageWriter::Impl::create_in_pipe(
    int fd, const Options &options) {
  if (!options.parent.empty())
    return fail_with_hint("an increment cannot go through a pipe: its reader lacks the parent",
                          "leave the parent away, or write to a folder");
  std::unique_ptr<Impl> impl(new Impl(options));
  CKPT_TRY(impl->destination_, PipeDestination::create(fd));
  CKPT_CHECK(impl->start(options));
  return impl;
}

Result<> ImageWriter::Impl::open_parent(const std::string &path, const Options &options) {
  CKPT_TRY(parent_, ParentChunks::open(options.parent, path,
                                       {.key = options.key, .file_system = options.file_system}));
  index_.generation = parent_->index().generation + 1;
  index_.parents = parent_->files();
  index_.chunk_size = std::max(index_.chunk_size, parent_->index().chunk_size);
  return {};
}

// One seed for all images of a chain, or equal chunks would not have equal addresses.
Result<> ImageWriter::Impl::start(const Options &options) {
  CKPT_TRY(index_.uuid, random_uuid());
  if (parent_)
    index_.seed = parent_->index().seed;
  else
    CKPT_CHECK(fill_random(&index_.seed, sizeof index_.seed));
  store_ = std::make_unique<ChunkStore>(*destination_, key_ ? &*key_ : nullptr, index_.uuid,
                                        index_.seed);
  if (parent_) store_->add_known(parent_->chunks());
  CKPT_CHECK(store_->write_header());
  unsigned threads = options.threads ? options.threads : usable_cores();
  for (unsigned i = 0; i < threads; ++i)
    tools_.push_back(std::make_unique<ChunkStore::Tools>(options.zstd_level, parent()));
  size_t memory = options.memory_bytes;
  if (memory == 0) memory = std::max(kLeastMemory, threads * kMemoryOfThread);
  CKPT_TRY(workers_, Workers::start(threads, memory, options.copy_puts));
  return {};
}

ImageWriter::Impl::~Impl() {
  abandon();  // what waits is skipped
}

void ImageWriter::Impl::abandon() {
  set_error({"the image was abandoned", {}});
  if (destination_) destination_->abandon();
}

// ---- streams

Result<StreamId> ImageWriter::Impl::stream(const std::string &name, Cut cut) {
  CKPT_CHECK(sticky());
  CKPT_CHECK(check_stream_name(name));
  std::lock_guard lock(mutex_);
  if (finished_) return fail("the image is finished");
  if (streams_.size() == kMaxStreams) return fail("an image has at most {} streams", kMaxStreams);
  if (!names_.insert(name).second) return fail("the stream '{}' exists already", name);
  Stream &stream = streams_.emplace_back();
  stream.name = name;
  stream.cut = cut;
  if (parent_) stream.theirs = parent_->image().find(name);
  if (stream.theirs && cut == Cut::Content)
    stream.follower.emplace(*stream.theirs, parent_->index());
  return StreamId(streams_.size() - 1);
}

Result<Stream *> ImageWriter::Impl::find(StreamId id) {
  CKPT_CHECK(sticky());
  std::lock_guard lock(mutex_);
  if (finished_) return fail("the image is finished");
  if (static_cast<u32>(id) >= streams_.size()) return fail("no such stream");
  return &streams_[static_cast<u32>(id)];
}

Result<> ImageWriter::Impl::set_mode(Stream &stream, Mode mode) {
  std::lock_guard lock(mutex_);
  return stream.set_mode(mode);
}

Result<> ImageWriter::Impl::reuse(StreamId id, const std::string &parent_stream, u64 size) {
  CKPT_TRY(Stream * stream, find(id));
  const StreamEntry *theirs = parent_ ? parent_->image().find(parent_stream) : nullptr;
  if (!theirs || theirs->size != size)
    return fail("the parent has no stream '{}' of {} bytes", parent_stream, size);
  if (stream->mode != Mode::Empty) return fail("the stream '{}' is not empty", stream->name);
  CKPT_CHECK(set_mode(*stream, Mode::Reused));
  std::vector<u32> chunks;
  for (u32 c : theirs->chunks) chunks.push_back(store_->use_known(c));
  std::lock_guard lock(mutex_);
  stream->chunks = std::move(chunks);
  stream->size = size;
  return {};
}

Result<> ImageWriter::Impl::append(StreamId id, ByteView data) {
  while (!data.empty()) {
    CKPT_TRY(std::span<std::byte> to, room(id));
    size_t n = std::min(data.size(), to.size());
    std::memcpy(to.data(), data.data(), n);
    CKPT_CHECK(commit(id, n));
    data = data.subspan(n);
  }
  CKPT_TRY(Stream * stream, find(id));
  return set_mode(*stream, Mode::Append);
}

Result<std::span<std::byte>> ImageWriter::Impl::room(StreamId id) {
  CKPT_TRY(Stream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  return stream->tail.room(blocks_);
}

Result<> ImageWriter::Impl::commit(StreamId id, size_t size) {
  CKPT_TRY(Stream * stream, find(id));
  stream->tail.commit(size);
  cut_tail(*stream, false);
  return sticky();
}

Result<> ImageWriter::Impl::close(StreamId id) {
  CKPT_TRY(Stream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  submit_rest(*stream);
  std::lock_guard lock(mutex_);
  stream->mode = Mode::Closed;
  return {};
}

void ImageWriter::Impl::cut_tail(Stream &stream, bool is_end) {
  for (;;) {
    Piece piece = stream.next_piece(is_end);
    if (piece.size == 0) return;
    take_piece(stream, piece);
  }
}

// The next bytes of the tail are a chunk. Their block is free when its last chunk is stored.
void ImageWriter::Impl::take_piece(Stream &stream, const Piece &piece) {
  ByteView raw = stream.tail.take(piece.size);
  stream.tail_at += piece.size;
  u64 chunk;
  u32 number = piece.known ? store_->use_known(*piece.known) : Stream::kPending;
  {
    std::lock_guard lock(mutex_);
    chunk = stream.chunks.size();
    stream.chunks.push_back(number);
    stream.size += piece.size;
  }
  if (!piece.known) submit(stream, chunk, raw, piece.like, stream.tail.block());
}

// What is left. A little takes no whole block with it while it waits: there may be very many small
// streams.
void ImageWriter::Impl::submit_rest(Stream &stream) {
  size_t size = stream.tail.bytes().size();
  if (size > 0 && size <= kSmallBytes) stream.tail.shrink();
  cut_tail(stream, true);
  stream.tail.reset();
}

Result<> ImageWriter::Impl::put(StreamId id, u64 offset, ByteView data,
                                std::function<void()> done) {
  auto completion = std::make_shared<Completion>(std::move(done));
  CKPT_TRY(Stream * stream, find(id));
  u64 first = offset / kChunkBytes;
  {
    std::lock_guard lock(mutex_);
    CKPT_CHECK(stream->set_mode(Mode::Put));
    CKPT_CHECK(stream->claim(first, offset, data.size()));
  }
  for (u64 chunk = first; !data.empty(); ++chunk) {
    ByteView raw = data.first(std::min(data.size(), kChunkBytes));
    data = data.subspan(raw.size());
    std::shared_ptr<void> held = completion;
    if (copy_puts_) held = copied(raw);
    std::optional<DeltaBase> like;
    if (stream->theirs) like = base_at(*stream->theirs, chunk * kChunkBytes);
    submit(*stream, chunk, raw, like, std::move(held));
  }
  return sticky();
}

// Has `raw` lie in memory of ours, and returns what keeps it there. Zeros need no memory.
std::shared_ptr<void> ImageWriter::Impl::copied(ByteView &raw) {
  static constinit std::array<std::byte, kChunkBytes> zeros{};  // not const: in no file
  Block copy;
  if (all_zero(raw)) {
    raw = ByteView(zeros).first(raw.size());
  } else {
    copy = copies_.take();
    std::memcpy(copy.get(), raw.data(), raw.size());
    raw = {copy.get(), raw.size()};
  }
  return copy;
}

// `held` lives until the chunk is stored.
void ImageWriter::Impl::submit(Stream &stream, u64 chunk, ByteView raw,
                               std::optional<DeltaBase> like, std::shared_ptr<void> held) {
  workers_->submit(raw.size(),
                   [this, &stream, chunk, raw, like, held = std::move(held)](unsigned worker) {
                     if (!failed_) store_chunk(stream, chunk, raw, like, worker);
                   });
}

void ImageWriter::Impl::store_chunk(Stream &stream, u64 chunk, ByteView raw,
                                    const std::optional<DeltaBase> &like, unsigned worker) {
  Result<u32> number = store_->add(raw, *tools_[worker], like);
  if (!number) return set_error(std::move(number).error());
  std::lock_guard lock(mutex_);
  stream.chunks[chunk] = *number;
}

// ---- the end

Result<> ImageWriter::Impl::finish(const nlohmann::json &manifest) {
  CKPT_CHECK(sticky());
  if (std::exchange(finished_, true)) return fail("the image is finished");
  Result<> result = finish_all(manifest);
  if (!result) set_error(result.error());
  return result;
}

Result<> ImageWriter::Impl::finish_all(const nlohmann::json &manifest) {
  for (Stream &s : streams_)
    if (s.mode == Mode::Append) submit_rest(s);
  workers_->drain();
  CKPT_CHECK(sticky());
  ChunkStore::Table table = store_->table();
  CKPT_CHECK(collect_streams(table.renumbered));
  index_.chunks = std::move(table.chunks);
  index_.chunks_file_size = store_->file_size();
  drop_unused_parents(index_);
  CKPT_TRY(index_.manifest, encode_manifest(manifest));
  CKPT_TRY(Bytes bytes, encode_index(index_, key_ ? &*key_ : nullptr));
  CKPT_CHECK(destination_->finish(bytes));
  parent_.reset();  // from now on it may be pruned
  return {};
}

// Moves the streams into the index, under the numbers that their chunks have there.
Result<> ImageWriter::Impl::collect_streams(const std::vector<u32> &renumbered) {
  for (Stream &s : streams_) {
    if (s.mode == Mode::Put) CKPT_CHECK(s.check_filled(*store_));
    for (u32 &chunk : s.chunks) chunk = renumbered[chunk];
    index_.streams.push_back({std::move(s.name), s.size, std::move(s.chunks), {}});
  }
  return {};
}

void ImageWriter::Impl::set_error(Error error) {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  error_ = std::move(error);
  failed_ = true;
}

Result<> ImageWriter::Impl::sticky() const {
  if (!failed_) return {};
  std::lock_guard lock(mutex_);
  return Failure(error_);
}

// ---- the public class

ImageWriter::ImageWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ImageWriter::~ImageWriter() = default;

Result<std::unique_ptr<ImageWriter>> ImageWriter::create(const std::string &final_path,
                                                         const Options &options) {
  CKPT_TRY(std::unique_ptr<Impl> impl, Impl::create(final_path, options));
  return std::unique_ptr<ImageWriter>(new ImageWriter(std::move(impl)));
}

Result<std::unique_ptr<ImageWriter>> ImageWriter::create_in_pipe(int fd, const Options &options) {
  CKPT_TRY(std::unique_ptr<Impl> impl, Impl::create_in_pipe(fd, options));
  return std::unique_ptr<ImageWriter>(new ImageWriter(std::move(impl)));
}

Result<StreamId> ImageWriter::stream(const std::string &name, Cut cut) {
  return impl_->stream(name, cut);
}
Result<> ImageWriter::reuse(StreamId id, const std::string &parent_stream, u64 size) {
  return impl_->reuse(id, parent_stream, size);
}
const ImageReader *ImageWriter::parent() const { return impl_->parent(); }
void ImageWriter::abandon() { impl_->abandon(); }
Result<> ImageWriter::append(StreamId id, ByteView data) { return impl_->append(id, data); }
Result<std::span<std::byte>> ImageWriter::room(StreamId id) { return impl_->room(id); }
Result<> ImageWriter::commit(StreamId id, size_t size) { return impl_->commit(id, size); }
Result<> ImageWriter::close(StreamId id) { return impl_->close(id); }
Result<> ImageWriter::put(StreamId id, u64 offset, ByteView data, std::function<void()> done) {
  return impl_->put(id, offset, data, std::move(done));
}
Result<> ImageWriter::finish(const nlohmann::json &manifest) { return impl_->finish(manifest); }
ImageStats ImageWriter::stats() const { return impl_->stats(); }
Uuid ImageWriter::uuid() const { return impl_->uuid(); }

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/image_writer.h"

#include <sys/random.h>

#include <atomic>
#include <deque>
#include <set>

#include <nlohmann/json.hpp>

#include "storage/chunk_codec.h"
#include "storage/index.h"
#include "storage/manifest.h"
#include "storage/partial_folder.h"
#include "storage/stream_name.h"
#include "storage/workers.h"

namespace ckpt {
namespace {

// Values of a chunk number that no chunk has.
constexpr u32 kHole = 0xffffffff;
constexpr u32 kPending = 0xfffffffe;

enum class Mode { Empty, Append, Put, Closed };

struct Stream {
  std::string name;
  Mode mode = Mode::Empty;
  u64 size = 0;
  std::vector<u32> chunks;
  std::byte *tail = nullptr;  // a buffer of the pool; used by the appending thread alone
  size_t tail_size = 0;
};

// Buffers of one chunk each, used again and again: fresh ones would cost a page fault each 4 KiB.
class BufferPool {
 public:
  std::byte *take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunkBytes));
      return all_.back().get();
    }
    std::byte *b = free_.back();
    free_.pop_back();
    return b;
  }
  void give(std::byte *b) {
    std::lock_guard lock(mutex_);
    free_.push_back(b);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> all_;
  std::vector<std::byte *> free_;
};

// Calls done() when the last chunk of a put() lets go of it.
struct Completion {
  explicit Completion(std::function<void()> f) : done(std::move(f)) {}
  Completion(const Completion &) = delete;
  ~Completion() {
    if (done) done();
  }
  std::function<void()> done;
};

Result<> fill_random(void *data, size_t size) {
  if (::getrandom(data, size, 0) != static_cast<ssize_t>(size))
    return fail_errno("cannot get random bytes");
  return {};
}

Result<Uuid> random_uuid() {
  Uuid uuid;
  CKPT_CHECK(fill_random(uuid.data(), uuid.size()));
  uuid[6] = static_cast<u8>((uuid[6] & 0x0f) | 0x40);  // RFC 4122: version 4,
  uuid[8] = static_cast<u8>((uuid[8] & 0x3f) | 0x80);  // its own variant
  return uuid;
}

}  // namespace

class ImageWriter::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const std::string &path, const Options &options);
  ~Impl();

  Result<StreamId> stream(const std::string &name);
  Result<> append(StreamId id, ByteView data);
  Result<> close(StreamId id);
  Result<> put(StreamId id, u64 offset, ByteView data, std::function<void()> done);
  Result<> finish(const nlohmann::json &manifest);
  ImageStats stats() const { return store_->stats(); }
  const Uuid &uuid() const { return index_.uuid; }

 private:
  explicit Impl(FileSystem &fs) : fs_(fs) {}
  Result<> open_files(const std::string &path, const Options &options);
  Result<> start_workers(const Options &options);

  Result<Stream *> find(StreamId id);
  Result<> set_mode(Stream &stream, Mode mode);
  Result<> claim(Stream &stream, u64 first, ByteView data, u64 offset);
  void submit_tail(Stream &stream);
  void submit(Stream &stream, u64 chunk, ByteView raw, std::function<void()> release);
  void store_chunk(Stream &stream, u64 chunk, ByteView raw, unsigned worker);

  Result<> collect_streams(const std::vector<u32> &renumbered);
  Result<> check_filled(const Stream &stream) const;
  Result<> write_index(const nlohmann::json &manifest);
  Result<> finish_all(const nlohmann::json &manifest);

  void set_error(Error error);
  Result<> sticky() const;

  FileSystem &fs_;
  std::unique_ptr<PartialFolder> folder_;
  Index index_;
  std::unique_ptr<ChunkStore> store_;
  std::vector<std::unique_ptr<ChunkEncoder>> encoders_;  // one a worker
  BufferPool buffers_;
  mutable std::mutex mutex_;  // what follows, but for the tails
  std::deque<Stream> streams_;
  std::set<std::string, std::less<>> names_;
  Error error_;
  std::atomic<bool> failed_ = false;
  bool finished_ = false;
  std::unique_ptr<Workers> workers_;  // last: its tasks use all the others
};

Result<std::unique_ptr<ImageWriter::Impl>> ImageWriter::Impl::create(const std::string &path,
                                                                     const Options &options) {
  std::unique_ptr<Impl> impl(
      new Impl(options.file_system ? *options.file_system : FileSystem::real()));
  CKPT_TRY(impl->index_.uuid, random_uuid());
  CKPT_CHECK(fill_random(&impl->index_.seed, sizeof impl->index_.seed));
  CKPT_CHECK(impl->open_files(path, options));
  CKPT_CHECK(impl->start_workers(options));
  return impl;
}

Result<> ImageWriter::Impl::open_files(const std::string &path, const Options &options) {
  CKPT_TRY(folder_, PartialFolder::create(path, options.overwrite, fs_));
  CKPT_TRY(UniqueFd fd, folder_->create_file(kChunksFile));
  store_ = std::make_unique<ChunkStore>(std::move(fd), folder_->path() + "/" + kChunksFile,
                                        index_.uuid, index_.seed, fs_);
  return store_->write_header();
}

Result<> ImageWriter::Impl::start_workers(const Options &options) {
  unsigned threads = options.threads ? options.threads : usable_cores();
  for (unsigned i = 0; i < threads; ++i)
    encoders_.push_back(std::make_unique<ChunkEncoder>(options.zstd_level));
  CKPT_TRY(workers_, Workers::start(threads, options.memory_bytes));
  return {};
}

ImageWriter::Impl::~Impl() {
  set_error({"the image was abandoned", {}});  // what waits is skipped
}

// ---- streams

Result<StreamId> ImageWriter::Impl::stream(const std::string &name) {
  CKPT_CHECK(sticky());
  CKPT_CHECK(check_stream_name(name));
  std::lock_guard lock(mutex_);
  if (finished_) return fail("the image is finished");
  if (streams_.size() == kMaxStreams) return fail("an image has at most {} streams", kMaxStreams);
  if (!names_.insert(name).second) return fail("the stream '{}' exists already", name);
  streams_.emplace_back().name = name;
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
  if (stream.mode != Mode::Empty && stream.mode != mode)
    return fail("the stream '{}' is closed, or filled in the other way", stream.name);
  stream.mode = mode;
  return {};
}

Result<> ImageWriter::Impl::append(StreamId id, ByteView data) {
  CKPT_TRY(Stream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  while (!data.empty()) {
    if (!stream->tail) stream->tail = buffers_.take();
    size_t n = std::min(data.size(), kChunkBytes - stream->tail_size);
    std::memcpy(stream->tail + stream->tail_size, data.data(), n);
    stream->tail_size += n;
    data = data.subspan(n);
    if (stream->tail_size == kChunkBytes) submit_tail(*stream);
  }
  return sticky();
}

Result<> ImageWriter::Impl::close(StreamId id) {
  CKPT_TRY(Stream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  if (stream->tail) submit_tail(*stream);
  std::lock_guard lock(mutex_);
  stream->mode = Mode::Closed;
  return {};
}

void ImageWriter::Impl::submit_tail(Stream &stream) {
  std::byte *buffer = std::exchange(stream.tail, nullptr);
  size_t size = std::exchange(stream.tail_size, 0);
  u64 chunk;
  {
    std::lock_guard lock(mutex_);
    chunk = stream.chunks.size();
    stream.chunks.push_back(kPending);
    stream.size += size;
  }
  submit(stream, chunk, {buffer, size}, [this, buffer] { buffers_.give(buffer); });
}

Result<> ImageWriter::Impl::put(StreamId id, u64 offset, ByteView data,
                                std::function<void()> done) {
  auto completion = std::make_shared<Completion>(std::move(done));
  CKPT_TRY(Stream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Put));
  u64 first = offset / kChunkBytes;
  CKPT_CHECK(claim(*stream, first, data, offset));
  for (u64 chunk = first; !data.empty(); ++chunk) {
    ByteView raw = data.first(std::min(data.size(), kChunkBytes));
    submit(*stream, chunk, raw, [completion] {});
    data = data.subspan(raw.size());
  }
  return sticky();
}

// Takes the chunks of a put() for it, so that nobody fills them twice.
Result<> ImageWriter::Impl::claim(Stream &stream, u64 first, ByteView data, u64 offset) {
  if (offset % kChunkBytes != 0)
    return fail("stream '{}': offset {} is no multiple of {}", stream.name, offset, kChunkBytes);
  if (offset > kMaxStreamBytes || data.size() > kMaxStreamBytes - offset)
    return fail("stream '{}' would pass {} bytes", stream.name, kMaxStreamBytes);
  size_t count = (data.size() + kChunkBytes - 1) / kChunkBytes;
  std::lock_guard lock(mutex_);
  std::vector<u32> &chunks = stream.chunks;
  if (count > 0 && chunks.size() < first + count) chunks.resize(first + count, kHole);
  for (u64 i = first; i < first + count; ++i)
    if (chunks[i] != kHole)
      return fail("stream '{}' is filled twice at byte {}", stream.name, i * kChunkBytes);
  for (u64 i = first; i < first + count; ++i) chunks[i] = kPending;
  stream.size = std::max<u64>(stream.size, offset + data.size());
  return {};
}

void ImageWriter::Impl::submit(Stream &stream, u64 chunk, ByteView raw,
                               std::function<void()> release) {
  workers_->submit(raw.size(), [this, &stream, chunk, raw, release](unsigned worker) {
    if (!failed_) store_chunk(stream, chunk, raw, worker);
    release();
  });
}

void ImageWriter::Impl::store_chunk(Stream &stream, u64 chunk, ByteView raw, unsigned worker) {
  Result<u32> number = store_->add(raw, *encoders_[worker]);
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
    if (s.tail) submit_tail(s);
  workers_->drain();
  CKPT_CHECK(sticky());
  ChunkStore::Table table = store_->table();
  CKPT_CHECK(collect_streams(table.renumbered));
  index_.chunks = std::move(table.chunks);
  index_.chunks_file_size = store_->file_size();
  CKPT_CHECK(store_->sync());
  CKPT_CHECK(write_index(manifest));
  return folder_->publish();
}

// Moves the streams into the index, under the numbers that their chunks have there.
Result<> ImageWriter::Impl::collect_streams(const std::vector<u32> &renumbered) {
  for (Stream &s : streams_) {
    CKPT_CHECK(check_filled(s));
    for (u32 &chunk : s.chunks) chunk = renumbered[chunk];
    index_.streams.push_back({std::move(s.name), s.size, std::move(s.chunks)});
  }
  return {};
}

Result<> ImageWriter::Impl::check_filled(const Stream &stream) const {
  u64 left = stream.size;
  for (size_t i = 0; i < stream.chunks.size(); ++i) {
    u64 want = std::min<u64>(left, kChunkBytes);
    if (stream.chunks[i] == kHole || store_->raw_size(stream.chunks[i]) != want)
      return fail("stream '{}' was not filled at byte {}", stream.name, i * kChunkBytes);
    left -= want;
  }
  return {};
}

Result<> ImageWriter::Impl::write_index(const nlohmann::json &manifest) {
  CKPT_TRY(index_.manifest, encode_manifest(manifest));
  CKPT_TRY(Bytes bytes, encode_index(index_));
  CKPT_TRY(UniqueFd fd, folder_->create_file(kIndexFile));
  std::string path = folder_->path() + "/" + kIndexFile;
  CKPT_CHECK(write_at(fs_, fd.get(), bytes, 0, path));
  return sync_file(fs_, fd.get(), path);
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

Result<StreamId> ImageWriter::stream(const std::string &name) { return impl_->stream(name); }
Result<> ImageWriter::append(StreamId id, ByteView data) { return impl_->append(id, data); }
Result<> ImageWriter::close(StreamId id) { return impl_->close(id); }
Result<> ImageWriter::put(StreamId id, u64 offset, ByteView data, std::function<void()> done) {
  return impl_->put(id, offset, data, std::move(done));
}
Result<> ImageWriter::finish(const nlohmann::json &manifest) { return impl_->finish(manifest); }
ImageStats ImageWriter::stats() const { return impl_->stats(); }
Uuid ImageWriter::uuid() const { return impl_->uuid(); }

}  // namespace ckpt

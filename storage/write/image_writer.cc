// SPDX-License-Identifier: Apache-2.0
//
// Opening and finishing an image. image_writer_streams.cc fills its streams.
#include "storage/write/image_writer.h"

#include <nlohmann/json.hpp>

#include "common/base/cores.h"
#include "storage/format/index.h"
#include "storage/format/manifest.h"
#include "storage/format/uuid.h"
#include "storage/write/image_writer_impl.h"

namespace ckpt::storage {
namespace {

constexpr size_t kMinMemory = 32u << 20, kMemoryPerThread = 4u << 20;

}  // namespace

// ---- opening

ImageWriter::Impl::Impl(const Options &options) : copy_puts_(options.copy_puts) {
  if (options.key) key_ = *options.key;
}

Result<std::unique_ptr<ImageWriter::Impl>> ImageWriter::Impl::create(const std::string &path,
                                                                     const Options &options) {
  std::unique_ptr<Impl> impl(new Impl(options));
  FileSystem &fs = FileSystem::or_real(options.file_system);
  if (!options.parent.empty()) CKPT_CHECK(impl->open_parent(path, options));
  if (options.overwrite)
    CKPT_CHECK(check_not_a_parent(path, {.key = options.key, .file_system = options.file_system}));
  CKPT_TRY(impl->destination_,
           FolderDestination::create(path, options.overwrite, fs, options.written));
  CKPT_CHECK(impl->start(options));
  return impl;
}

Result<std::unique_ptr<ImageWriter::Impl>> ImageWriter::Impl::create_in_pipe(
    int fd, const Options &options) {
  if (!options.parent.empty())
    return fail_with_hint(
        "an increment cannot be sent through a pipe, because its reader lacks the "
        "parent",
        "omit the parent, or write to a folder");
  std::unique_ptr<Impl> impl(new Impl(options));
  CKPT_TRY(impl->destination_, PipeDestination::create(fd));
  CKPT_CHECK(impl->start(options));
  return impl;
}

Result<> ImageWriter::Impl::open_parent(const std::string &path, const Options &options) {
  CKPT_TRY(parent_, ParentChunks::open(options.parent, path,
                                       {.key = options.key,
                                        .only_own = options.only_own_parent,
                                        .file_system = options.file_system}));
  index_.generation = parent_->index().generation + 1;
  index_.parents = parent_->files();
  index_.chunk_size = std::max(index_.chunk_size, parent_->index().chunk_size);
  return {};
}

// All images of a chain share one seed; otherwise equal chunks would have different addresses.
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
  return start_workers(options);
}

Result<> ImageWriter::Impl::start_workers(const Options &options) {
  unsigned threads = options.threads ? options.threads : usable_cores();
  for (unsigned i = 0; i < threads; ++i)
    encoders_.push_back(std::make_unique<ChunkStore::Encoders>(options.zstd_level, parent()));
  size_t memory = options.memory_bytes;
  if (memory == 0) memory = std::max(kMinMemory, threads * kMemoryPerThread);
  CKPT_TRY(workers_, Workers::start(threads, memory, options.copy_puts));
  return {};
}

ImageWriter::Impl::~Impl() {
  abandon();  // so that the workers skip the waiting chunks
}

void ImageWriter::Impl::abandon() {
  set_error({"the image was abandoned", {}});
  if (destination_) destination_->abandon();
}

// ---- finishing

Result<> ImageWriter::Impl::finish(const nlohmann::json &manifest) {
  CKPT_CHECK(first_error());
  if (std::exchange(finished_, true)) return fail("the image is already finished");
  Result<> result = finish_all(manifest);
  if (!result) set_error(result.error());
  return result;
}

Result<> ImageWriter::Impl::finish_all(const nlohmann::json &manifest) {
  for (WrittenStream &s : streams_)
    if (s.mode == Mode::Append) submit_rest(s);
  workers_->drain();
  CKPT_CHECK(first_error());
  ChunkStore::Table table = store_->table();
  CKPT_CHECK(collect_streams(table.renumbered));
  index_.chunks = std::move(table.chunks);
  index_.chunks_file_size = store_->file_size();
  drop_unused_parents(index_);
  CKPT_TRY(index_.manifest, encode_manifest(manifest));
  CKPT_TRY(Bytes bytes, encode_index(index_, key_ ? &*key_ : nullptr));
  CKPT_CHECK(destination_->finish(bytes));
  parent_.reset();  // from now on it can be pruned
  return {};
}

// Moves the streams into the index. `renumbered` maps their chunk numbers to those in the index.
Result<> ImageWriter::Impl::collect_streams(const std::vector<u32> &renumbered) {
  for (WrittenStream &s : streams_) {
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

Result<> ImageWriter::Impl::first_error() const {
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
  return impl_->put(id, offset, data, std::move(done), impl_->copies_puts());
}
Result<> ImageWriter::put_in_place(StreamId id, u64 offset, ByteView data,
                                   std::function<void()> done) {
  return impl_->put(id, offset, data, std::move(done), false);
}
Result<> ImageWriter::put_known(StreamId id, u64 offset, u32 size, const ChunkAddress &address) {
  return impl_->put_known(id, offset, size, address);
}
Result<> ImageWriter::finish(const nlohmann::json &manifest) { return impl_->finish(manifest); }
ImageStats ImageWriter::stats() const { return impl_->stats(); }
Uuid ImageWriter::uuid() const { return impl_->uuid(); }
u64 ImageWriter::seed() const { return impl_->seed(); }

}  // namespace ckpt::storage

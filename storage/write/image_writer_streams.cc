// SPDX-License-Identifier: Apache-2.0
//
// The functions of ImageWriter that fill streams.
#include <array>

#include "common/base/shortage.h"
#include "storage/format/stream_name.h"
#include "storage/write/image_writer_impl.h"

namespace ckpt::storage {
namespace {

// The last chunk of a stream is moved to its own block if it is at most this long, because its
// block may otherwise have to wait for a worker.
constexpr size_t kSmallBytes = kChunkBytes / 8;
static_assert(kMaxCutBytes <= kChunkBytes && 2 * kChunkBytes <= BlockPool::kSlabBytes);

// Calls done() when the last chunk of a put() releases it.
struct Completion {
  explicit Completion(std::function<void()> f) : done(std::move(f)) {}
  Completion(const Completion &) = delete;
  ~Completion() {
    if (done) done();
  }
  std::function<void()> done;
};

}  // namespace

Result<StreamId> ImageWriter::Impl::stream(const std::string &name, Cut cut) {
  CKPT_CHECK(first_error());
  CKPT_CHECK(check_stream_name(name));
  std::lock_guard lock(mutex_);
  if (finished_) return fail("the image is already finished");
  if (streams_.size() == kMaxStreams) return fail("an image has at most {} streams", kMaxStreams);
  if (!names_.insert(name).second) return fail("stream '{}' already exists", name);
  WrittenStream &stream = streams_.emplace_back();
  stream.name = name;
  stream.cut = cut;
  if (parent_) stream.parent_stream = parent_->image().find(name);
  if (stream.parent_stream && cut == Cut::Content)
    stream.increment_cutter.emplace(*stream.parent_stream, parent_->index());
  return StreamId(streams_.size() - 1);
}

Result<WrittenStream *> ImageWriter::Impl::find(StreamId id) {
  CKPT_CHECK(first_error());
  std::lock_guard lock(mutex_);
  if (finished_) return fail("the image is already finished");
  if (static_cast<u32>(id) >= streams_.size()) return fail("no such stream");
  return &streams_[static_cast<u32>(id)];
}

Result<> ImageWriter::Impl::set_mode(WrittenStream &stream, Mode mode) {
  std::lock_guard lock(mutex_);
  return stream.set_mode(mode);
}

Result<> ImageWriter::Impl::reuse(StreamId id, const std::string &parent_stream, u64 size) {
  CKPT_TRY(WrittenStream * stream, find(id));
  const StreamEntry *from = parent_ ? parent_->image().find(parent_stream) : nullptr;
  if (!from || from->size != size)
    return fail("the parent has no stream '{}' of {} bytes", parent_stream, size);
  if (stream->mode != Mode::Empty) return fail("stream '{}' is not empty", stream->name);
  CKPT_CHECK(set_mode(*stream, Mode::Reused));
  std::vector<u32> chunks;
  for (u32 c : from->chunks) chunks.push_back(store_->use_known(c));
  std::lock_guard lock(mutex_);
  stream->chunks = std::move(chunks);
  stream->size = size;
  return {};
}

// ---- append

Result<> ImageWriter::Impl::append(StreamId id, ByteView data) {
  while (!data.empty()) {
    CKPT_TRY(std::span<std::byte> to, room(id));
    size_t n = std::min(data.size(), to.size());
    std::memcpy(to.data(), data.data(), n);
    CKPT_CHECK(commit(id, n));
    data = data.subspan(n);
  }
  CKPT_TRY(WrittenStream * stream, find(id));
  return set_mode(*stream, Mode::Append);
}

Result<std::span<std::byte>> ImageWriter::Impl::room(StreamId id) {
  CKPT_TRY(WrittenStream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  return stream->tail.room(blocks_);
}

Result<> ImageWriter::Impl::commit(StreamId id, size_t size) {
  CKPT_TRY(WrittenStream * stream, find(id));
  stream->tail.commit(size);
  cut_tail(*stream, false);
  return first_error();
}

Result<> ImageWriter::Impl::close(StreamId id) {
  CKPT_TRY(WrittenStream * stream, find(id));
  CKPT_CHECK(set_mode(*stream, Mode::Append));
  submit_rest(*stream);
  std::lock_guard lock(mutex_);
  stream->mode = Mode::Closed;
  return {};
}

void ImageWriter::Impl::cut_tail(WrittenStream &stream, bool is_end) {
  for (;;) {
    Piece piece = stream.next_piece(is_end);
    if (piece.size == 0) return;
    submit_piece(stream, piece);
  }
}

// Removes a chunk from the front of the tail. Its block returns to the pool when the last chunk of
// the block is stored.
void ImageWriter::Impl::submit_piece(WrittenStream &stream, const Piece &piece) {
  ByteView raw = stream.tail.take(piece.size);
  stream.tail_at += piece.size;
  u64 chunk;
  u32 number = piece.known ? store_->use_known(*piece.known) : WrittenStream::kPending;
  {
    std::lock_guard lock(mutex_);
    chunk = stream.chunks.size();
    stream.chunks.push_back(number);
    stream.size += piece.size;
  }
  if (!piece.known) submit(stream, chunk, raw, piece.similar, stream.tail.block());
}

// Submits the rest of the tail. If it is small it must not keep a whole block while it waits,
// because there may be very many small streams.
void ImageWriter::Impl::submit_rest(WrittenStream &stream) {
  size_t size = stream.tail.bytes().size();
  if (size > 0 && size <= kSmallBytes) stream.tail.shrink();
  cut_tail(stream, true);
  stream.tail.reset();
}

// ---- put

Result<> ImageWriter::Impl::put(StreamId id, u64 offset, ByteView data, std::function<void()> done,
                                bool copy) {
  auto completion = std::make_shared<Completion>(std::move(done));
  CKPT_TRY(WrittenStream * stream, find(id));
  u64 first = offset / kChunkBytes;
  {
    std::lock_guard lock(mutex_);
    CKPT_CHECK(stream->set_mode(Mode::Put));
    CKPT_CHECK(stream->claim(first, offset, data.size(), places_));
  }
  for (u64 chunk = first; !data.empty(); ++chunk) {
    ByteView raw = data.first(std::min(data.size(), kChunkBytes));
    data = data.subspan(raw.size());
    std::shared_ptr<void> held = completion;
    if (copy) held = copied(raw);
    std::optional<DeltaBase> similar;
    if (stream->parent_stream) similar = base_at(*stream->parent_stream, chunk * kChunkBytes);
    submit(*stream, chunk, raw, similar, std::move(held));
  }
  return first_error();
}

Result<> ImageWriter::Impl::put_known(StreamId id, u64 offset, u32 size,
                                      const ChunkAddress &address) {
  if (size == 0 || size > kChunkBytes) return fail("a chunk has no {} bytes", size);
  CKPT_TRY(WrittenStream * stream, find(id));
  CKPT_TRY(u32 number, store_->use_known(address, size));
  std::lock_guard lock(mutex_);
  CKPT_CHECK(stream->set_mode(Mode::Put));
  CKPT_CHECK(stream->claim(offset / kChunkBytes, offset, size, places_));
  stream->chunks[offset / kChunkBytes] = number;
  return {};
}

// Copies `raw`, lets it point to the copy, and returns the owner of the copy. Zeros are not copied.
std::shared_ptr<void> ImageWriter::Impl::copied(ByteView &raw) {
  static constinit std::array<std::byte, kChunkBytes> zeros{};  // not const, to be in .bss
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

// ---- both

// `held` is released when the chunk is stored.
void ImageWriter::Impl::submit(WrittenStream &stream, u64 chunk, ByteView raw,
                               std::optional<DeltaBase> similar, std::shared_ptr<void> held) {
  workers_->submit(raw.size(),
                   [this, &stream, chunk, raw, similar, held = std::move(held)](unsigned worker) {
                     if (!failed_) store_chunk(stream, chunk, raw, similar, worker);
                   });
}

void ImageWriter::Impl::store_chunk(WrittenStream &stream, u64 chunk, ByteView raw,
                                    const std::optional<DeltaBase> &similar, unsigned worker) {
  Result<u32> number = guarded([&] { return store_->add(raw, *encoders_[worker], similar); });
  if (!number) return set_error(std::move(number).error());
  std::lock_guard lock(mutex_);
  stream.chunks[chunk] = *number;
}

}  // namespace ckpt::storage

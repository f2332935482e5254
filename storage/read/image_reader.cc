// SPDX-License-Identifier: Apache-2.0
#include "storage/read/image_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "storage/chunk/chunk_codec.h"
#include "storage/chunk/decode_scratch.h"
#include "storage/format/index.h"
#include "storage/format/manifest.h"

namespace ckpt::storage {

ImageReader::ImageReader(std::string path, const ReadOptions &options)
    : path_(std::move(path)), fs_(FileSystem::or_real(options.file_system)) {
  if (options.key) key_ = *options.key;
}
ImageReader::~ImageReader() = default;

// ---- opening

Result<std::unique_ptr<ImageReader>> ImageReader::open(const std::string &path,
                                                       const ReadOptions &options) {
  std::unique_ptr<ImageReader> out(new ImageReader(path, options));
  UniqueFd folder(out->fs_.open(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (!folder) return fail_errno("cannot open the image {}", path);
  struct stat index {};
  if (::fstatat(folder.get(), kIndexFile, &index, 0) != 0 && errno == ENOENT)
    return fail_with_hint(
        fmt::format("{} is not an image: it contains no {}", path, kIndexFile),
        "name a folder that ckpt-dump has written (ckpt-image list shows those of "
        "a folder)");
  if (options.only_own) CKPT_CHECK(check_own(out->fs_, folder.get(), path));
  CKPT_CHECK(out->open_index(folder.get(), options.only_own));
  if (auto ok = out->files_.open(out->fs_, folder.get(), path, out->index_, options.hold); !ok)
    return Failure(out->loss_named(folder.get(), std::move(ok).error()));
  if (options.only_own) CKPT_CHECK(out->files_.check_own(out->fs_));
  return out;
}

Result<> ImageReader::open_index(int folder, bool only_own) {
  std::string file = path_ + "/" + kIndexFile;
  u64 size = 0;
  CKPT_TRY(UniqueFd fd, open_inside(fs_, folder, kIndexFile, file, size));
  if (only_own) CKPT_CHECK(check_own(fs_, fd.get(), file));
  if (size > kMaxIndexBytes)
    return fail("{} has {} bytes; the limit is {}", file, size, kMaxIndexBytes);
  Bytes bytes(size);
  CKPT_CHECK(read_at(fs_, fd.get(), bytes.data(), size, 0, file));
  Result<Index> index = parse_index(bytes, key_ ? &*key_ : nullptr);
  if (!index) return Failure(std::move(index).error().in(file));
  index_ = std::move(*index);
  Result<nlohmann::json> manifest = parse_manifest(index_.manifest);
  if (!manifest) return Failure(std::move(manifest).error().in(file));
  manifest_ = std::move(*manifest);
  for (size_t i = 0; i < index_.streams.size(); ++i) by_name_[index_.streams[i].name] = i;
  return {};
}

// If chunks.ckpt is truncated, adds the streams that lose bytes first.
Error ImageReader::loss_named(int folder, Error error) const {
  struct stat st;
  UniqueFd fd(fs_.openat(folder, kChunksFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || fs_.fstat(fd.get(), &st) != 0) return error;
  u64 size = static_cast<u64>(st.st_size);
  if (size >= index_.chunks_file_size) return error;
  auto lost = std::ranges::find_if(index_.chunks, [&](const ChunkEntry &c) {
    return c.file == 0 && c.offset + c.stored_size > size;
  });
  error.what += "; the first loss is in " +
                (lost == index_.chunks.end() || size < kChunksHeaderBytes
                     ? "its header"
                     : streams_of(static_cast<u32>(lost - index_.chunks.begin())));
  return error;
}

// ---- naming

const StreamEntry *ImageReader::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &index_.streams[it->second];
}

// "streams 'a', 'b', 'c' and 7 more". A linear search, for messages only.
std::string ImageReader::streams_of(u32 chunk) const {
  std::string names;
  size_t count = 0;
  auto holds = [&](u32 c) {
    const ChunkEntry &e = index_.chunks[c];
    return c == chunk || (e.codec == Codec::Delta && e.base == chunk);
  };
  for (const StreamEntry &s : index_.streams) {
    if (!std::ranges::any_of(s.chunks, holds)) continue;
    if (++count <= 3) names += fmt::format("{}'{}'", count == 1 ? "" : ", ", s.name);
  }
  if (count == 0) return "no stream";
  if (count > 3) names += fmt::format(" and {} more", count - 3);
  return (count == 1 ? "stream " : "streams ") + names;
}

Failure ImageReader::damaged(u32 chunk, Error error) const {
  const ChunkEntry &c = index_.chunks[chunk];
  error.what =
      fmt::format("{}: chunk {} (bytes {} to {}), a part of {}: {}", files_.path(c.file), chunk,
                  c.offset, c.offset + c.stored_size, streams_of(chunk), error.what);
  return Failure(std::move(error));
}

ImageStats ImageReader::stats() const {
  ImageStats out;
  for (const ChunkEntry &c : index_.chunks) {
    if (c.file != 0) {
      ++out.parent_chunks;
      out.parent_bytes += c.stored_size;
      continue;
    }
    out.stored_bytes += c.stored_size;
    if (c.codec == Codec::Raw) ++out.raw_chunks;
    if (c.codec == Codec::Zstd) ++out.zstd_chunks;
    if (c.codec == Codec::Delta) ++out.delta_chunks;
  }
  out.unique_chunks = out.raw_chunks + out.zstd_chunks + out.delta_chunks;
  for (const StreamEntry &s : index_.streams) {
    out.raw_bytes += s.size;
    out.chunks += s.chunks.size();
    for (u32 c : s.chunks) out.zero_chunks += index_.chunks[c].codec == Codec::Zero;
  }
  return out;
}

// ---- decoding

std::unique_ptr<DecodeScratch> ImageReader::take_scratch() const {
  std::lock_guard lock(mutex_);
  if (free_scratch_.empty()) return std::make_unique<DecodeScratch>(index_.chunk_size + kSealBytes);
  std::unique_ptr<DecodeScratch> s = std::move(free_scratch_.back());
  free_scratch_.pop_back();
  return s;
}

void ImageReader::give_scratch(std::unique_ptr<DecodeScratch> scratch) const {
  std::lock_guard lock(mutex_);
  free_scratch_.push_back(std::move(scratch));
}

// Reads the stored bytes and compares their checksum, so that damage never reaches the decoder.
Result<ByteView> ImageReader::load(const ChunkEntry &entry, DecodeScratch &scratch) const {
  CKPT_CHECK(files_.read(fs_, entry, scratch.stored.get()));
  ByteView stored{scratch.stored.get(), entry.stored_size};
  if (stored_checksum(stored) != entry.stored_checksum) return fail("wrong checksum: damaged");
  return stored;
}

Result<> ImageReader::read_stored(u32 chunk, std::span<std::byte> stored) const {
  const ChunkEntry &entry = index_.chunks[chunk];
  if (auto ok = files_.read(fs_, entry, stored.data()); !ok)
    return damaged(chunk, std::move(ok).error());
  if (stored_checksum(stored) == entry.stored_checksum) return {};
  return damaged(chunk, {"wrong checksum: damaged", {}});
}

// Decrypts sealed bytes, and decompresses them.
Result<> ImageReader::unpack(const ChunkEntry &entry, ByteView stored, DecodeScratch &scratch,
                             std::span<std::byte> raw) const {
  if (!key_ || index_.key_check == 0 || entry.codec == Codec::Zero)
    return scratch.decoder.decode(entry, stored, raw);
  Bytes context = seal_context(entry.address, entry.raw_size, entry.codec);
  size_t size = stored.size() - kSealBytes;
  if (entry.codec == Codec::Raw) return key_->open(context, stored, raw);
  std::span<std::byte> opened = scratch.opened(size);
  CKPT_CHECK(key_->open(context, stored, opened));
  return scratch.decoder.decode(entry, opened, raw);
}

Result<> ImageReader::decode(const ChunkEntry &entry, DecodeScratch &scratch,
                             std::span<std::byte> raw) const {
  if (entry.codec == Codec::Raw && index_.key_check == 0) {
    // Needs no stored_checksum: the address is a checksum of the same bytes.
    CKPT_CHECK(files_.read(fs_, entry, raw.data()));
  } else {
    CKPT_TRY(ByteView stored, load(entry, scratch));
    CKPT_CHECK(unpack(entry, stored, scratch, raw));
    if (entry.codec == Codec::Zero) return {};
    if (entry.codec == Codec::Delta) CKPT_CHECK(add_base(entry, scratch, raw));
  }
  if (chunk_address(raw, index_.seed) != entry.address) return fail("wrong address: damaged");
  return {};
}

// Turns the difference in `raw` into the raw bytes of the delta. The recursion ends here, because a
// base is not a delta (check_base() in index_tables.cc).
Result<> ImageReader::add_base(const ChunkEntry &entry, DecodeScratch &scratch,
                               std::span<std::byte> raw) const {
  std::span<std::byte> base = scratch.base(index_.chunks[entry.base].raw_size);
  if (auto ok = decode(index_.chunks[entry.base], scratch, base); !ok)
    return fail("its base, chunk {}: {}", entry.base, ok.error().what);
  xor_into(raw, base.subspan(entry.base_offset));
  return {};
}

Result<> ImageReader::read_chunk(u32 chunk, std::span<std::byte> raw) const {
  std::unique_ptr<DecodeScratch> scratch = take_scratch();
  Result<> done = decode_named(chunk, *scratch, raw);
  give_scratch(std::move(scratch));
  return done;
}

Result<> ImageReader::decode_named(u32 chunk, DecodeScratch &scratch,
                                   std::span<std::byte> raw) const {
  if (auto ok = decode(index_.chunks[chunk], scratch, raw); !ok)
    return damaged(chunk, std::move(ok).error());
  return {};
}

// Consecutive small reads decode their chunk only once.
Result<ByteView> ImageReader::decode_cached(u32 chunk, DecodeScratch &scratch) const {
  std::span<std::byte> raw{scratch.raw.get(), index_.chunks[chunk].raw_size};
  if (scratch.cached == chunk) return raw;
  scratch.cached.reset();
  CKPT_CHECK(decode_named(chunk, scratch, raw));
  scratch.cached = chunk;
  return raw;
}

// Reads up to the end of the chunk that contains `offset`. Returns the number of bytes.
Result<size_t> ImageReader::read_part(const StreamEntry &stream, u64 offset,
                                      std::span<std::byte> out, DecodeScratch &scratch) const {
  size_t at = stream.chunk_at(offset);
  u32 chunk = stream.chunks[at];
  size_t skip = offset - stream.starts[at], size = index_.chunks[chunk].raw_size;
  size_t n = std::min(out.size(), size - skip);
  if (n == size) {
    CKPT_CHECK(decode_named(chunk, scratch, out.first(n)));
  } else {
    CKPT_TRY(ByteView raw, decode_cached(chunk, scratch));
    std::ranges::copy(raw.subspan(skip, n), out.begin());
  }
  return n;
}

Result<> ImageReader::read(const StreamEntry &stream, u64 offset, std::span<std::byte> out) const {
  if (offset > stream.size || out.size() > stream.size - offset)
    return fail("cannot read {} bytes at offset {} of stream '{}', which has {} bytes", out.size(),
                offset, stream.name, stream.size);
  std::unique_ptr<DecodeScratch> scratch = take_scratch();
  while (!out.empty()) {
    CKPT_TRY(size_t n, read_part(stream, offset, out, *scratch));
    out = out.subspan(n);
    offset += n;
  }
  give_scratch(std::move(scratch));
  return {};
}

}  // namespace ckpt::storage

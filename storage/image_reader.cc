// SPDX-License-Identifier: Apache-2.0
#include "storage/image_reader.h"

#include <fcntl.h>

#include <algorithm>

#include "storage/chunk_codec.h"
#include "storage/index.h"
#include "storage/manifest.h"
#include "storage/scratch.h"

namespace ckpt {
namespace {

// A regular file in the image's folder itself: no link leads a reader elsewhere, no FIFO stops it.
Result<UniqueFd> open_inside(FileSystem &fs, int folder, const char *name, const std::string &path,
                             u64 &size) {
  UniqueFd fd(fs.openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot open {}", path);
  struct stat st;
  if (fs.fstat(fd.get(), &st) != 0) return fail_errno("cannot stat {}", path);
  if (!S_ISREG(st.st_mode)) return fail("{} is not a regular file", path);
  size = static_cast<u64>(st.st_size);
  return fd;
}

}  // namespace

ImageReader::ImageReader(std::string path, FileSystem &fs) : path_(std::move(path)), fs_(fs) {}
ImageReader::~ImageReader() = default;

// ---- opening

Result<std::unique_ptr<ImageReader>> ImageReader::open(const std::string &path, FileSystem &fs) {
  std::unique_ptr<ImageReader> out(new ImageReader(path, fs));
  UniqueFd folder(fs.open(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (!folder) return fail_errno("cannot open the image {}", path);
  CKPT_CHECK(out->open_index(folder.get()));
  CKPT_CHECK(out->open_chunks(folder.get()));
  return out;
}

Result<> ImageReader::open_index(int folder) {
  std::string file = path_ + "/" + kIndexFile;
  u64 size = 0;
  CKPT_TRY(UniqueFd fd, open_inside(fs_, folder, kIndexFile, file, size));
  if (size > kMaxIndexBytes)
    return fail("{} has {} bytes; {} are allowed", file, size, kMaxIndexBytes);
  Bytes bytes(size);
  CKPT_CHECK(read_at(fs_, fd.get(), bytes.data(), size, 0, file));
  Result<Index> index = parse_index(bytes);
  if (!index) return Failure(std::move(index).error().in(file));
  index_ = std::move(*index);
  Result<nlohmann::json> manifest = parse_manifest(index_.manifest);
  if (!manifest) return Failure(std::move(manifest).error().in(file));
  manifest_ = std::move(*manifest);
  for (size_t i = 0; i < index_.streams.size(); ++i) by_name_[index_.streams[i].name] = i;
  return {};
}

Result<> ImageReader::open_chunks(int folder) {
  std::string file = path_ + "/" + kChunksFile;
  u64 size = 0;
  CKPT_TRY(chunks_, open_inside(fs_, folder, kChunksFile, file, size));
  CKPT_CHECK(check_chunks_size(size, file));
  return check_chunks_header(file);
}

Result<> ImageReader::check_chunks_size(u64 size, const std::string &file) const {
  u64 want = index_.chunks_file_size;
  if (size > want) return fail("{} has {} bytes; the index knows {}: damaged", file, size, want);
  if (size == want) return {};
  auto lost = std::ranges::find_if(
      index_.chunks, [&](const ChunkEntry &c) { return c.offset + c.stored_size > size; });
  std::string streams =
      lost == index_.chunks.end() ? "" : streams_of(static_cast<u32>(lost - index_.chunks.begin()));
  return fail("{} is cut short: {} bytes of {}; the first loss is in {}", file, size, want,
              streams.empty() ? "its header" : streams);
}

Result<> ImageReader::check_chunks_header(const std::string &file) const {
  std::byte found[kChunksHeaderBytes];
  CKPT_CHECK(read_at(fs_, chunks_.get(), found, sizeof found, 0, file));
  if (Bytes want = encode_chunks_header(index_.uuid); !std::ranges::equal(found, want))
    return fail("{}: its header is damaged, or it belongs to another image", file);
  return {};
}

// ---- naming

const StreamEntry *ImageReader::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &index_.streams[it->second];
}

// "stream 'a', 'b' and 7 more"; a search, for messages only.
std::string ImageReader::streams_of(u32 chunk) const {
  std::string names;
  size_t count = 0;
  for (const StreamEntry &s : index_.streams) {
    if (std::ranges::find(s.chunks, chunk) == s.chunks.end()) continue;
    if (++count <= 3) names += fmt::format("{}'{}'", count == 1 ? "" : ", ", s.name);
  }
  if (count == 0) return "no stream";
  if (count > 3) names += fmt::format(" and {} more", count - 3);
  return (count == 1 ? "stream " : "streams ") + names;
}

Failure ImageReader::damaged(u32 chunk, Error error) const {
  const ChunkEntry &c = index_.chunks[chunk];
  error.what = fmt::format("{}/{}: chunk {} (bytes {} to {}), which holds a part of {}: {}", path_,
                           kChunksFile, chunk, c.offset, c.offset + c.stored_size,
                           streams_of(chunk), error.what);
  return Failure(std::move(error));
}

ImageStats ImageReader::stats() const {
  ImageStats out;
  for (const ChunkEntry &c : index_.chunks) {
    out.stored_bytes += c.stored_size;
    if (c.codec == Codec::Raw) ++out.raw_chunks;
    if (c.codec == Codec::Zstd) ++out.zstd_chunks;
  }
  out.unique_chunks = out.raw_chunks + out.zstd_chunks;
  for (const StreamEntry &s : index_.streams) {
    out.raw_bytes += s.size;
    out.chunks += s.chunks.size();
    for (u32 c : s.chunks) out.zero_chunks += index_.chunks[c].codec == Codec::Zero;
  }
  return out;
}

// ---- decoding

std::unique_ptr<Scratch> ImageReader::take_scratch() const {
  std::lock_guard lock(mutex_);
  if (free_scratch_.empty()) return std::make_unique<Scratch>(index_.chunk_size);
  std::unique_ptr<Scratch> s = std::move(free_scratch_.back());
  free_scratch_.pop_back();
  return s;
}

void ImageReader::give_scratch(std::unique_ptr<Scratch> scratch) const {
  std::lock_guard lock(mutex_);
  free_scratch_.push_back(std::move(scratch));
}

// The stored bytes, with their checksum compared: damage never reaches the decoder.
Result<ByteView> ImageReader::load(const ChunkEntry &entry, Scratch &scratch) const {
  CKPT_CHECK(read_at(fs_, chunks_.get(), scratch.stored.get(), entry.stored_size, entry.offset,
                     kChunksFile));
  ByteView stored{scratch.stored.get(), entry.stored_size};
  if (stored_checksum(stored) != entry.stored_checksum) return fail("wrong checksum: damaged");
  return stored;
}

Result<> ImageReader::decode(const ChunkEntry &entry, Scratch &scratch,
                             std::span<std::byte> raw) const {
  if (entry.codec == Codec::Raw) {  // in place: its address is a checksum of the same bytes
    CKPT_CHECK(read_at(fs_, chunks_.get(), raw.data(), raw.size(), entry.offset, kChunksFile));
  } else {
    CKPT_TRY(ByteView stored, load(entry, scratch));
    CKPT_CHECK(scratch.decoder.decode(entry, stored, raw));
    if (entry.codec == Codec::Zero) return {};
  }
  if (chunk_address(raw, index_.seed) != entry.address) return fail("wrong address: damaged");
  return {};
}

Result<> ImageReader::decode_named(u32 chunk, Scratch &scratch, std::span<std::byte> raw) const {
  if (auto ok = decode(index_.chunks[chunk], scratch, raw); !ok)
    return damaged(chunk, std::move(ok).error());
  return {};
}

// Small reads one after the other decode their chunk once.
Result<ByteView> ImageReader::decode_cached(u32 chunk, Scratch &scratch) const {
  std::span<std::byte> raw{scratch.raw.get(), index_.chunks[chunk].raw_size};
  if (scratch.cached == chunk) return raw;
  scratch.cached.reset();
  CKPT_CHECK(decode_named(chunk, scratch, raw));
  scratch.cached = chunk;
  return raw;
}

Result<> ImageReader::read(const StreamEntry &stream, u64 offset, std::span<std::byte> out) const {
  if (offset > stream.size || out.size() > stream.size - offset)
    return fail("stream '{}' has {} bytes; {} from {} on were asked for", stream.name, stream.size,
                out.size(), offset);
  std::unique_ptr<Scratch> scratch = take_scratch();
  while (!out.empty()) {
    u32 chunk = stream.chunks[offset / index_.chunk_size];
    size_t skip = offset % index_.chunk_size, size = index_.chunks[chunk].raw_size;
    size_t n = std::min(out.size(), size - skip);
    if (n == size) {
      CKPT_CHECK(decode_named(chunk, *scratch, out.first(n)));
    } else {
      CKPT_TRY(ByteView raw, decode_cached(chunk, *scratch));
      std::ranges::copy(raw.subspan(skip, n), out.begin());
    }
    out = out.subspan(n);
    offset += n;
  }
  give_scratch(std::move(scratch));
  return {};
}

}  // namespace ckpt

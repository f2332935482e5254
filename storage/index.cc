// SPDX-License-Identifier: Apache-2.0
#include "storage/index.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>

#include "storage/stream_name.h"

namespace ckpt {
namespace {

u64 chunks_of(u64 size, u32 chunk_size) { return size / chunk_size + (size % chunk_size != 0); }

// ---- writing

void put_header(Writer &w, const Index &index, u64 file_size) {
  w.raw(kIndexMagic.data(), kIndexMagic.size());
  w.put(kFormatVersion).put(index.chunk_size).put(file_size).put(index.chunks_file_size);
  w.put(index.seed).raw(index.uuid.data(), index.uuid.size()).put(u64{0});
}

void put_section(Writer &w, Section tag, ByteView body) {
  w.put(tag).put(u32{0}).put(u64{body.size()}).raw(body.data(), body.size());
}

Writer chunk_table(const Index &index) {
  Writer w;
  w.put(u64{index.chunks.size()});
  for (const ChunkEntry &c : index.chunks) {
    w.put(c.address.low).put(c.address.high).put(c.stored_checksum);
    w.put(c.stored_size).put(c.raw_size).put(c.codec);
  }
  return w;
}

Writer stream_table(const Index &index) {
  Writer w;
  w.put(u64{index.streams.size()});
  for (const StreamEntry &s : index.streams) {
    w.str(s.name).put(s.size);
    w.raw(s.chunks.data(), s.chunks.size() * sizeof(u32));
  }
  return w;
}

// ---- reading

Result<> check_header_fits(ByteView file) {
  if (file.size() < kIndexHeaderBytes + kChecksumBytes)
    return fail("cut short: {} bytes are no index", file.size());
  if (text(file.first(kIndexMagic.size())) != kIndexMagic)
    return fail("not an index of a ckpt image (wrong magic)");
  return {};
}

Result<> check_version(u32 version) {
  if (version == kFormatVersion) return {};
  return fail_with_hint(
      fmt::format("format version {}; this ckpt reads version {}", version, kFormatVersion),
      version > kFormatVersion ? "use a newer ckpt, if the file is not damaged" : "");
}

Result<> check_size_and_checksum(ByteView file, u64 declared) {
  if (declared != file.size())
    return fail("{} bytes, but its header says {}: cut short or damaged", file.size(), declared);
  ByteView body = file.first(file.size() - kChecksumBytes);
  u64 stored = Reader(file.last(kChecksumBytes)).get<u64>();
  if (XXH3_64bits(body.data(), body.size()) != stored) return fail("wrong checksum: damaged");
  return {};
}

Result<> parse_header(Reader &in, Index &index, ByteView file) {
  in.raw(kIndexMagic.size());
  CKPT_CHECK(check_version(in.get<u32>()));
  index.chunk_size = in.get<u32>();
  CKPT_CHECK(check_size_and_checksum(file, in.get<u64>()));
  index.chunks_file_size = in.get<u64>();
  index.seed = in.get<u64>();
  std::memcpy(index.uuid.data(), in.raw(index.uuid.size()).data(), index.uuid.size());
  if (in.get<u64>() != 0) return fail("reserved bytes of the header are not zero");
  if (index.chunk_size < kMinChunkBytes || index.chunk_size > kMaxChunkBytes)
    return fail("chunk size {} is outside {} to {}", index.chunk_size, kMinChunkBytes,
                kMaxChunkBytes);
  return {};
}

Result<Reader> section(Reader &in, Section tag, const char *name) {
  u32 found = in.get<u32>();
  u32 reserved = in.get<u32>();
  u64 size = in.get<u64>();
  if (!in.ok() || found != static_cast<u32>(tag) || reserved != 0 || size > in.left())
    return fail("the section '{}' is malformed", name);
  return Reader(in.raw(size));
}

Result<> check_chunk(const ChunkEntry &c, u32 chunk_size) {
  if (c.raw_size == 0 || c.raw_size > chunk_size) return fail("holds {} bytes", c.raw_size);
  bool right = false;
  switch (c.codec) {
    case Codec::Zero: right = c.stored_size == 0; break;
    case Codec::Raw: right = c.stored_size == c.raw_size; break;
    case Codec::Zstd: right = c.stored_size > 0 && c.stored_size < c.raw_size; break;
  }
  if (!right)
    return fail("codec {} with {} bytes of {} stored", static_cast<u32>(c.codec), c.stored_size,
                c.raw_size);
  return {};
}

ChunkEntry get_chunk(Reader &in, u64 offset) {
  ChunkEntry c;
  c.address.low = in.get<u64>();
  c.address.high = in.get<u64>();
  c.stored_checksum = in.get<u64>();
  c.offset = offset;
  c.stored_size = in.get<u32>();
  c.raw_size = in.get<u32>();
  c.codec = in.get<Codec>();
  return c;
}

// Chunks lie back to back in table order, so offsets are sums and gaps or overlaps cannot be said.
Result<> parse_chunks(Reader in, Index &index) {
  u64 count = in.get<u64>();
  if (!in.ok() || count != in.left() / kChunkEntryBytes || in.left() % kChunkEntryBytes != 0)
    return fail("the chunk table's size does not fit its {} chunks", count);
  index.chunks.reserve(count);
  u64 offset = kChunksHeaderBytes;
  for (u64 i = 0; i < count; ++i) {
    ChunkEntry c = get_chunk(in, offset);
    if (auto ok = check_chunk(c, index.chunk_size); !ok)
      return Failure(std::move(ok).error().in(fmt::format("chunk {}", i)));
    offset += c.stored_size;
    index.chunks.push_back(c);
  }
  if (offset != index.chunks_file_size)
    return fail("the chunks add up to {} bytes, the header says {}", offset,
                index.chunks_file_size);
  return {};
}

Result<> check_stream_chunks(const StreamEntry &s, const Index &index) {
  u64 left = s.size;
  for (u32 chunk : s.chunks) {
    if (chunk >= index.chunks.size()) return fail("names chunk {}, which does not exist", chunk);
    u64 want = std::min<u64>(left, index.chunk_size);
    if (index.chunks[chunk].raw_size != want)
      return fail("needs {} bytes of chunk {}, which holds {}", want, chunk,
                  index.chunks[chunk].raw_size);
    left -= want;
  }
  return {};
}

Result<StreamEntry> get_stream(Reader &in, const Index &index) {
  StreamEntry s;
  std::string_view name = in.str();
  s.size = in.get<u64>();
  if (!in.ok()) return fail("the stream table is cut short");
  CKPT_CHECK(check_stream_name(name));
  s.name = name;
  u64 count = chunks_of(s.size, index.chunk_size);
  if (s.size > kMaxStreamBytes || count > in.left() / sizeof(u32))
    return fail("stream '{}' claims {} bytes, more than its table holds", name, s.size);
  s.chunks.resize(count);
  ByteView ids = in.raw(count * sizeof(u32));
  if (count > 0) std::memcpy(s.chunks.data(), ids.data(), ids.size());
  if (auto ok = check_stream_chunks(s, index); !ok)
    return Failure(std::move(ok).error().in(fmt::format("stream '{}'", name)));
  return s;
}

Result<> parse_streams(Reader in, Index &index) {
  u64 count = in.get<u64>();
  if (!in.ok() || count > kMaxStreams)
    return fail("{} streams; {} are allowed", count, kMaxStreams);
  std::unordered_set<std::string> names;
  for (u64 i = 0; i < count; ++i) {
    CKPT_TRY(StreamEntry s, get_stream(in, index));
    if (!names.insert(s.name).second) return fail("two streams are named '{}'", s.name);
    index.streams.push_back(std::move(s));
  }
  if (!in.done()) return fail("the stream table holds {} bytes too many", in.left());
  return {};
}

Result<> parse_parents(Reader in) {
  u64 count = in.get<u64>();
  if (!in.done() || count != 0) return fail("names parent images, which version 1 does not have");
  return {};
}

}  // namespace

Result<Bytes> encode_index(const Index &index) {
  Writer chunks = chunk_table(index), streams = stream_table(index), parents;
  parents.put(u64{0});
  Writer body;
  put_section(body, Section::Manifest, view(index.manifest));
  put_section(body, Section::Chunks, chunks.bytes());
  put_section(body, Section::Streams, streams.bytes());
  put_section(body, Section::Parents, parents.bytes());
  u64 file_size = kIndexHeaderBytes + body.size() + kChecksumBytes;
  if (index.manifest.size() > kMaxManifestBytes)
    return fail("the manifest has {} bytes; {} are allowed", index.manifest.size(),
                kMaxManifestBytes);
  if (index.streams.size() > kMaxStreams)
    return fail("{} streams; {} are allowed", index.streams.size(), kMaxStreams);
  if (file_size > kMaxIndexBytes)
    return fail("the index has {} bytes; {} are allowed", file_size, kMaxIndexBytes);
  Writer file;
  put_header(file, index, file_size);
  file.raw(body.bytes().data(), body.size());
  file.put(u64{XXH3_64bits(file.bytes().data(), file.size())});
  return file.take();
}

Result<Index> parse_index(ByteView file) {
  CKPT_CHECK(check_header_fits(file));
  Index index;
  Reader in(file.first(file.size() - kChecksumBytes));
  CKPT_CHECK(parse_header(in, index, file));
  CKPT_TRY(Reader manifest, section(in, Section::Manifest, "manifest"));
  if (manifest.left() > kMaxManifestBytes) return fail("the manifest is too long");
  index.manifest = text(manifest.raw(manifest.left()));
  CKPT_TRY(Reader chunks, section(in, Section::Chunks, "chunks"));
  CKPT_CHECK(parse_chunks(chunks, index));
  CKPT_TRY(Reader streams, section(in, Section::Streams, "streams"));
  CKPT_CHECK(parse_streams(streams, index));
  CKPT_TRY(Reader parents, section(in, Section::Parents, "parents"));
  CKPT_CHECK(parse_parents(parents));
  if (!in.done()) return fail("{} bytes too many after the last section", in.left());
  return index;
}

Bytes encode_chunks_header(const Uuid &uuid) {
  Writer w;
  w.raw(kChunksMagic.data(), kChunksMagic.size());
  w.put(kFormatVersion).put(u32{0}).raw(uuid.data(), uuid.size());
  return w.take();
}

}  // namespace ckpt

// SPDX-License-Identifier: Apache-2.0
#include "storage/format/index_tables.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "common/base/printable.h"
#include "storage/format/stream_name.h"

namespace ckpt::storage {
namespace {

size_t chunk_entry_bytes(const Index &index) {
  if (index.version == 1) return kChunkEntryBytesV1;
  return index.version == 2 ? kChunkEntryBytesV2 : kChunkEntryBytes;
}

Result<> check_stored_size(const ChunkEntry &c, u64 seal) {
  bool right = false;
  switch (c.codec) {
    case Codec::Zero: right = c.stored_size == 0; break;
    case Codec::Raw: right = c.stored_size == c.raw_size + seal; break;
    case Codec::Zstd:
    case Codec::Delta: right = c.stored_size > seal && c.stored_size < c.raw_size + seal; break;
  }
  if (right) return {};
  return fail("codec {} with {} stored bytes for {} raw bytes", static_cast<u32>(c.codec),
              c.stored_size, c.raw_size);
}

// `end`: the required offset of the image's next own chunk.
Result<> check_place(const ChunkEntry &c, const Index &index, u64 end) {
  if (c.file == 0)
    return c.offset == end ? Result<>{} : fail("is at byte {} instead of {}", c.offset, end);
  if (c.file > index.parents.size())
    return fail("is in parent {} of {}", c.file, index.parents.size());
  if (c.codec == Codec::Zero) return fail("is a chunk of zeros in a parent");
  u64 size = index.parents[c.file - 1].size;
  if (c.offset < kChunksHeaderBytes || c.offset > size || c.stored_size > size - c.offset)
    return fail("is at byte {} of a parent that has {}", c.offset, size);
  return {};
}

Result<> check_chunk(const ChunkEntry &c, const Index &index, u64 end) {
  if (c.raw_size == 0 || c.raw_size > index.chunk_size) return fail("has {} raw bytes", c.raw_size);
  if (c.codec == Codec::Delta && index.version < 3)
    return fail("codec 3 in format version {}", index.version);
  CKPT_CHECK(check_stored_size(c, index.key_check ? kSealBytes : 0));
  return check_place(c, index, end);
}

// A base is not a delta itself, so reading a chunk needs at most two stored chunks.
Result<> check_base(const ChunkEntry &c, const Index &index) {
  if (c.codec != Codec::Delta)
    return c.base == 0 && c.base_offset == 0 ? Result<>{} : fail("has a base but is not a delta");
  if (c.base >= index.chunks.size()) return fail("has base {}, which does not exist", c.base);
  const ChunkEntry &base = index.chunks[c.base];
  if (base.codec != Codec::Raw && base.codec != Codec::Zstd)
    return fail("has base {} of codec {}", c.base, static_cast<u32>(base.codec));
  if (c.base_offset >= base.raw_size)
    return fail("starts at byte {} of base {}, which has {}", c.base_offset, c.base, base.raw_size);
  return {};
}

Result<> check_bases(const Index &index) {
  for (size_t i = 0; i < index.chunks.size(); ++i)
    if (auto ok = check_base(index.chunks[i], index); !ok)
      return Failure(std::move(ok).error().in(fmt::format("chunk {}", i)));
  return {};
}

// Version 1 has no parents and stores no offsets: each chunk starts at the end of the one before.
ChunkEntry get_chunk(Reader &in, const Index &index, u64 end) {
  ChunkEntry c;
  c.address.low = in.get<u64>();
  c.address.high = in.get<u64>();
  c.stored_checksum = in.get<u64>();
  c.offset = index.version == 1 ? end : in.get<u64>();
  c.stored_size = in.get<u32>();
  c.raw_size = in.get<u32>();
  c.codec = in.get<Codec>();
  c.file = index.version == 1 ? 0 : in.get<u32>();
  if (index.version < 3) return c;
  c.base = in.get<u32>();
  c.base_offset = in.get<u32>();
  return c;
}

Result<> check_stream_chunks(const StreamEntry &s, const Index &index) {
  u64 left = s.size;
  for (u32 chunk : s.chunks) {
    if (chunk >= index.chunks.size())
      return fail("refers to chunk {}, which does not exist", chunk);
    u64 has = index.chunks[chunk].raw_size;
    u64 want = index.version == 1 ? std::min<u64>(left, index.chunk_size) : std::min(left, has);
    if (want != has) return fail("needs {} bytes of chunk {}, which has {}", want, chunk, has);
    left -= want;
  }
  if (left != 0) return fail("is {} bytes longer than its chunks", left);
  return {};
}

u64 chunk_count(Reader &in, const StreamEntry &s, const Index &index) {
  if (index.version != 1) return in.get<u64>();
  return s.size / index.chunk_size + (s.size % index.chunk_size != 0);
}

Result<StreamEntry> get_stream(Reader &in, const Index &index) {
  StreamEntry s;
  std::string_view name = in.str();
  s.size = in.get<u64>();
  u64 count = chunk_count(in, s, index);
  if (!in.ok()) return fail("the stream table is truncated");
  CKPT_CHECK(check_stream_name(name));
  s.name = name;
  if (s.size > kMaxStreamBytes || count > in.left() / sizeof(u32))
    return fail("stream '{}' claims {} bytes in {} chunks, more than the table contains", name,
                s.size, count);
  s.chunks.resize(count);
  ByteView ids = in.raw(count * sizeof(u32));
  if (count > 0) std::memcpy(s.chunks.data(), ids.data(), ids.size());
  if (auto ok = check_stream_chunks(s, index); !ok)
    return Failure(std::move(ok).error().in(fmt::format("stream '{}'", name)));
  find_starts(s, index.chunks);
  return s;
}

// A single path component, so that a parent is always in the folder of its child.
bool is_folder_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<ParentEntry> get_parent(Reader &in) {
  ParentEntry p;
  ByteView uuid = in.raw(p.uuid.size());
  p.size = in.get<u64>();
  p.name = in.str();
  if (!in.ok()) return fail("the table of parents is truncated");
  std::memcpy(p.uuid.data(), uuid.data(), uuid.size());
  if (!is_folder_name(p.name))
    return fail("'{}' is not a valid name of a parent", printable(p.name));
  return p;
}

}  // namespace

// ---- positions in a stream, which the file does not store

void find_starts(StreamEntry &stream, const std::vector<ChunkEntry> &chunks) {
  stream.starts.clear();
  stream.starts.reserve(stream.chunks.size());
  u64 at = 0;
  for (u32 c : stream.chunks) {
    stream.starts.push_back(at);
    at += chunks[c].raw_size;
  }
}

size_t StreamEntry::chunk_at(u64 offset) const {
  return static_cast<size_t>(std::ranges::upper_bound(starts, offset) - starts.begin()) - 1;
}

// ---- writing

Writer encode_parents(const Index &index) {
  Writer w;
  w.put(index.generation).put(u64{index.parents.size()});
  for (const ParentEntry &p : index.parents)
    w.raw(p.uuid.data(), p.uuid.size()).put(p.size).str(p.name);
  return w;
}

Writer encode_chunks(const Index &index) {
  Writer w;
  w.put(u64{index.chunks.size()});
  for (const ChunkEntry &c : index.chunks) {
    w.put(c.address.low).put(c.address.high).put(c.stored_checksum).put(c.offset);
    w.put(c.stored_size).put(c.raw_size).put(c.codec).put(c.file);
    w.put(c.base).put(c.base_offset);
  }
  return w;
}

Writer encode_streams(const Index &index) {
  Writer w;
  w.put(u64{index.streams.size()});
  for (const StreamEntry &s : index.streams) {
    w.str(s.name).put(s.size).put(u64{s.chunks.size()});
    w.raw(s.chunks.data(), s.chunks.size() * sizeof(u32));
  }
  return w;
}

// ---- reading

Result<> parse_parents(Reader in, Index &index) {
  if (index.version != 1) index.generation = in.get<u64>();
  u64 count = in.get<u64>();
  if (!in.ok() || count > (index.version == 1 ? 0 : kMaxParents))
    return fail("the image has {} parent images; the limit is {}", count,
                index.version == 1 ? 0 : kMaxParents);
  std::set<Uuid> uuids = {index.uuid};
  for (u64 i = 0; i < count; ++i) {
    CKPT_TRY(ParentEntry p, get_parent(in));
    if (!uuids.insert(p.uuid).second)
      return fail("the parent '{}' is listed twice", printable(p.name));
    index.parents.push_back(std::move(p));
  }
  if (!in.done()) return fail("the table of parents has {} extra bytes", in.left());
  return {};
}

// The image's own chunks follow each other in the order of the table, without gaps or overlaps.
Result<> parse_chunks(Reader in, Index &index) {
  u64 count = in.get<u64>();
  size_t entry = chunk_entry_bytes(index);
  if (!in.ok() || count != in.left() / entry || in.left() % entry != 0)
    return fail("the chunk table has the wrong size for {} chunks", count);
  index.chunks.reserve(count);
  u64 end = kChunksHeaderBytes;
  for (u64 i = 0; i < count; ++i) {
    ChunkEntry c = get_chunk(in, index, end);
    if (auto ok = check_chunk(c, index, end); !ok)
      return Failure(std::move(ok).error().in(fmt::format("chunk {}", i)));
    if (c.file == 0) end += c.stored_size;
    index.chunks.push_back(c);
  }
  CKPT_CHECK(check_bases(index));
  if (end != index.chunks_file_size)
    return fail("the chunks add up to {} bytes, but the header says {}", end,
                index.chunks_file_size);
  return {};
}

Result<> parse_streams(Reader in, Index &index) {
  u64 count = in.get<u64>();
  if (!in.ok() || count > kMaxStreams)
    return fail("the image has {} streams; the limit is {}", count, kMaxStreams);
  std::unordered_set<std::string> names;
  for (u64 i = 0; i < count; ++i) {
    CKPT_TRY(StreamEntry s, get_stream(in, index));
    if (!names.insert(s.name).second) return fail("two streams are named '{}'", s.name);
    index.streams.push_back(std::move(s));
  }
  if (!in.done()) return fail("the stream table has {} extra bytes", in.left());
  return {};
}

}  // namespace ckpt::storage

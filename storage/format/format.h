// SPDX-License-Identifier: Apache-2.0
//
// The image format as constants and plain values. docs/FORMAT.md is the specification; this file,
// index.cc and index_tables.cc implement it. Each limit bounds what a hostile image can make a
// reader do, and a writer fails rather than exceed it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::storage {

inline constexpr u32 kFormatVersion = 3;  // the version that is written
inline constexpr u32 kFirstVersion = 1;   // the oldest version that can be read
inline constexpr std::string_view kIndexMagic = "CKPTINDX";
inline constexpr std::string_view kChunksMagic = "CKPTCHNK";
inline constexpr const char *kIndexFile = "index.ckpt";
inline constexpr const char *kChunksFile = "chunks.ckpt";

inline constexpr size_t kChunkBytes = 1u << 20;     // raw bytes of a chunk that this writer cuts
inline constexpr size_t kMaxChunkBytes = 4u << 20;  // raw bytes of a chunk that a reader accepts
inline constexpr size_t kMinChunkBytes = 4u << 10;  // the smallest chunk_size of an image
inline constexpr u64 kMaxIndexBytes = 512u << 20;   // about 13 million distinct chunks: 12 TiB
inline constexpr u64 kMaxManifestBytes = 16u << 20;
inline constexpr int kMaxManifestDepth = 64;
inline constexpr u32 kMaxStreams = 1u << 20;
inline constexpr u64 kMaxStreamBytes = u64{1} << 46;  // 64 TiB
inline constexpr size_t kMaxNameBytes = 255;
inline constexpr u32 kMaxParents = 256;  // a reader keeps one open file for each

inline constexpr size_t kChunksHeaderBytes = 32;
inline constexpr size_t kIndexHeaderBytes = 64;
inline constexpr size_t kIndexUuidOffset = 40;
inline constexpr size_t kChunkEntryBytes = 56;
inline constexpr size_t kChunkEntryBytesV2 = 48;
inline constexpr size_t kChunkEntryBytesV1 = 36;
inline constexpr size_t kChecksumBytes = 8;

enum class Section : u32 { Manifest = 1, Chunks = 2, Streams = 3, Parents = 4 };

// The stored form of a chunk: nothing (all its bytes are zero), its raw bytes, a zstd frame of
// them, or a zstd frame of their difference (exclusive or) from another chunk, the base.
enum class Codec : u32 { Zero = 0, Raw = 1, Zstd = 2, Delta = 3 };

using Uuid = std::array<u8, 16>;

// XXH3-128 of a chunk's raw bytes under the image's seed. Chunks with equal addresses are stored
// once.
struct ChunkAddress {
  u64 low = 0;
  u64 high = 0;
  bool operator==(const ChunkAddress &) const = default;
};

// For hash tables. The address is a hash already.
struct ChunkAddressHash {
  size_t operator()(const ChunkAddress &a) const { return static_cast<size_t>(a.low); }
};

struct ChunkEntry {
  ChunkAddress address;
  u64 stored_checksum = 0;  // XXH3-64, seed 0, of the stored bytes
  u64 offset = 0;           // of the stored bytes in their file
  u32 stored_size = 0;
  u32 raw_size = 0;
  Codec codec = Codec::Zero;
  u32 file = 0;  // 0: the image's own chunks.ckpt; n: that of Index::parents[n - 1]
  // Of a delta: the number of its base, which is Raw or Zstd, and the byte of the base at which the
  // comparison starts. Beyond its end the base counts as zeros.
  u32 base = 0;
  u32 base_offset = 0;
};

struct StreamEntry {
  std::string name;
  u64 size = 0;
  std::vector<u32> chunks;  // indexes into the chunk table, in the order of the stream
  std::vector<u64> starts;  // the offset of each chunk in the stream; not part of the file

  // The position in `chunks` of the chunk that holds byte `offset`, which must be below `size`.
  size_t chunk_at(u64 offset) const;
};

// Another image in the same folder that holds some of this image's chunks.
struct ParentEntry {
  Uuid uuid{};
  u64 size = 0;      // the minimum size of its chunks.ckpt
  std::string name;  // of its folder: a single path component
};

struct Index {
  u32 version = kFormatVersion;
  Uuid uuid{};
  u64 seed = 0;
  u64 key_check = 0;  // Key::check() of the image's key; 0: the image is not encrypted
  u32 chunk_size = kChunkBytes;
  u64 chunks_file_size = kChunksHeaderBytes;
  u64 generation = 0;    // the parent's plus one; 0: written without a parent
  std::string manifest;  // JSON text
  std::vector<ChunkEntry> chunks;
  std::vector<StreamEntry> streams;
  std::vector<ParentEntry> parents;
};

// Fills `starts` from the sizes of the chunks.
void find_starts(StreamEntry &stream, const std::vector<ChunkEntry> &chunks);

}  // namespace ckpt::storage

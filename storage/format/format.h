// SPDX-License-Identifier: Apache-2.0
//
// The image format as constants and plain values. docs/FORMAT.md is the grammar; this file,
// index.cc and index_tables.cc are its only other copy. Every limit here bounds what a hostile
// image can make a reader do, and a writer refuses to pass it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::storage {

inline constexpr u32 kFormatVersion = 3;  // what is written
inline constexpr u32 kFirstVersion = 1;   // this one and all after it are read
inline constexpr std::string_view kIndexMagic = "CKPTINDX";
inline constexpr std::string_view kChunksMagic = "CKPTCHNK";
inline constexpr const char *kIndexFile = "index.ckpt";
inline constexpr const char *kChunksFile = "chunks.ckpt";

inline constexpr size_t kChunkBytes = 1u << 20;  // raw bytes of a chunk, as this writer cuts them
inline constexpr size_t kMaxChunkBytes = 4u << 20;  // as a reader accepts them
inline constexpr size_t kMinChunkBytes = 4u << 10;
inline constexpr u64 kMaxIndexBytes = 512u << 20;  // about 13 million different chunks: 12 TiB
inline constexpr u64 kMaxManifestBytes = 16u << 20;
inline constexpr int kMaxManifestDepth = 64;
inline constexpr u32 kMaxStreams = 1u << 20;
inline constexpr u64 kMaxStreamBytes = u64{1} << 46;  // 64 TiB
inline constexpr size_t kMaxNameBytes = 255;
inline constexpr u32 kMaxParents = 256;  // each of them is an open file while the image is read

inline constexpr size_t kChunksHeaderBytes = 32;
inline constexpr size_t kIndexHeaderBytes = 64;
inline constexpr size_t kChunkEntryBytes = 56;
inline constexpr size_t kChunkEntryBytesV2 = 48;
inline constexpr size_t kChunkEntryBytesV1 = 36;
inline constexpr size_t kChecksumBytes = 8;

enum class Section : u32 { Manifest = 1, Chunks = 2, Streams = 3, Parents = 4 };

// How a chunk's raw bytes are stored: not at all (they are zeros), as they are, as a zstd frame, or
// as a zstd frame of what they differ by (exclusive or) from another chunk, their base.
enum class Codec : u32 { Zero = 0, Raw = 1, Zstd = 2, Delta = 3 };

using Uuid = std::array<u8, 16>;

// XXH3-128 of a chunk's raw bytes under the image's seed: what makes equal chunks one.
struct ChunkAddress {
  u64 low = 0;
  u64 high = 0;
  bool operator==(const ChunkAddress &) const = default;
};

struct ChunkEntry {
  ChunkAddress address;
  u64 stored_checksum = 0;  // XXH3-64, seed 0, of the stored bytes
  u64 offset = 0;           // in the file that holds it
  u32 stored_size = 0;
  u32 raw_size = 0;
  Codec codec = Codec::Zero;
  u32 file = 0;  // 0: the image's own chunks.ckpt; n: that of Index::parents[n - 1]
  // Of a delta: the number of its base, which is Raw or Zstd, and the byte of the base that its
  // first byte is compared with. What lies behind the base's end counts as zeros.
  u32 base = 0;
  u32 base_offset = 0;
};

struct StreamEntry {
  std::string name;
  u64 size = 0;
  std::vector<u32> chunks;  // indexes into the chunk table, one after the other
  std::vector<u64> starts;  // where each begins in the stream; not in the file

  // The chunk that holds byte `offset` of the stream, which has that byte.
  size_t chunk_at(u64 offset) const;
};

// Another image in the same folder, some of whose chunks this one uses.
struct ParentEntry {
  Uuid uuid{};
  u64 size = 0;      // what its chunks.ckpt has at least
  std::string name;  // of its folder: one plain component
};

struct Index {
  u32 version = kFormatVersion;
  Uuid uuid{};
  u64 seed = 0;
  u64 key_check = 0;  // not 0: encrypted, by a key that has this check (storage/format/key.h)
  u32 chunk_size = kChunkBytes;
  u64 chunks_file_size = kChunksHeaderBytes;
  u64 generation = 0;    // its parent's and one; 0: it was made without one
  std::string manifest;  // JSON text
  std::vector<ChunkEntry> chunks;
  std::vector<StreamEntry> streams;
  std::vector<ParentEntry> parents;
};

// Fills `starts` from the sizes of the chunks.
void find_starts(StreamEntry &stream, const std::vector<ChunkEntry> &chunks);

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
//
// What the messages of a migration contain (docs/MIGRATION.md). parse_…() accept any bytes; no
// value: the message is malformed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "tools/migrate/decision_files.h"

namespace ckpt::tools {

inline constexpr u32 kMigrateVersion = 1;
inline constexpr size_t kMaxNeedsBytes = 4u << 20;  // the description of the running program
inline constexpr u32 kMaxWanted = 32u << 20;        // chunks of one image

// The first message of the machine that the program is on.
struct Hello {
  u32 version = kMigrateVersion;
  std::string ckpt_version;
  std::string number;  // of the migration
  std::string host;
  u32 patience_seconds = 0;
};
struct Welcome {
  u32 version = kMigrateVersion;
  std::string ckpt_version;
  std::string host;
};
struct Prepare {
  std::string needs;  // JSON: ckpt-dump --check --manifest
  u64 bytes = 0;      // of its images, at most
  std::string device, key_file, output;
  bool shared_key = false, keep = false, ignore_processor = false;
};
struct ImageOffer {
  u32 round = 0;
  u64 index_bytes = 0;
};
// Stored bytes of an image that is not complete yet.
struct Piece {
  u64 offset = 0;  // in chunks.ckpt
  ByteView stored;
};
// Which of the image's own chunks the receiver lacks, in the order of the chunk table.
class WantList {
 public:
  explicit WantList(u32 count = 0) : count_(count), bits_((size_t{count} + 7) / 8) {}
  u32 count() const { return count_; }
  bool has(u32 i) const { return (bits_[i / 8] >> (i % 8)) & 1; }
  void set(u32 i) { bits_[i / 8] |= static_cast<u8>(1u << (i % 8)); }
  Bytes encode() const;
  static std::optional<WantList> parse(ByteView body);

 private:
  u32 count_;
  std::vector<u8> bits_;
};
struct Stored {
  u64 chunks = 0;      // of the image's own
  u64 had_chunks = 0;  // of these, how many the receiver had in images of earlier rounds
};
struct Running {
  i32 pid = 0;
};

Bytes encode(const Error &failure);
Bytes encode(const Hello &m);
Bytes encode(const Welcome &m);
Bytes encode(const Prepare &m);
Bytes encode(const ImageOffer &m);
Bytes encode(const Stored &m);
Bytes encode(const Running &m);
Bytes encode(const TakingState &m);

Error parse_failure(ByteView body);
std::optional<Hello> parse_hello(ByteView body);
std::optional<Welcome> parse_welcome(ByteView body);
std::optional<Prepare> parse_prepare(ByteView body);
std::optional<ImageOffer> parse_image(ByteView body);
std::optional<u32> parse_begin_ahead(ByteView body);  // the round
std::optional<Piece> parse_piece(ByteView body);      // which lives as long as the body
std::optional<Stored> parse_stored(ByteView body);
std::optional<Running> parse_running(ByteView body);
std::optional<TakingState> parse_state(ByteView body);

Failure malformed(const char *message);

}  // namespace ckpt::tools

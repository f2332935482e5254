// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/image_in.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "common/base/units.h"
#include "storage/format/hash.h"
#include "storage/format/index.h"
#include "storage/io/destination.h"
#include "tools/migrate/image_out.h"

namespace ckpt::tools {
namespace {

using storage::ChunkEntry;

// Takes only the memory that has arrived, whatever the offer says.
Result<Bytes> receive_index(FrameLink &link, u64 size) {
  Bytes index;
  while (index.size() < size) {
    CKPT_TRY(Bytes piece, link.receive(Kind::Index));
    if (piece.empty() || piece.size() > size - index.size()) return malformed("Index");
    index.insert(index.end(), piece.begin(), piece.end());
  }
  return index;
}

Result<> check_room(const std::string &path, u64 bytes) {
  struct statvfs fs {};
  std::string folder = std::filesystem::path(path).parent_path();
  if (::statvfs(folder.c_str(), &fs) != 0) return fail_errno("cannot look at {}", folder);
  u64 room = u64{fs.f_bavail} * fs.f_frsize;
  if (bytes <= room) return {};
  return fail_with_hint(fmt::format("the image needs {} in {}, where {} are free",
                                    human_bytes(bytes), folder, human_bytes(room)),
                        "make room there");
}

class IncomingImage {
 public:
  IncomingImage(FrameLink &link, storage::Index index, storage::Destination &to,
                const ChunkShelf &shelf, const AheadIn &ahead)
      : link_(link),
        index_(std::move(index)),
        own_(own_chunks(index_)),
        to_(to),
        shelf_(shelf),
        ahead_(ahead) {}

  Result<Stored> receive() {
    WantList want = wanted();
    CKPT_CHECK(link_.send(Kind::Want, want.encode()));
    CKPT_CHECK(to_.write(0, storage::encode_chunks_header(index_.uuid, index_.version)));
    Stored stored{own_.size(), 0};
    for (u32 i = 0; i < own_.size(); i++) {
      if (came_ahead(own_[i])) continue;
      stored.had_chunks += !want.has(i);
      CKPT_CHECK(want.has(i) ? receive_chunk(own_[i]) : copy_chunk(own_[i]));
    }
    return link_.receive(Kind::ImageEnd).transform([&](auto &&) { return stored; });
  }

 private:
  WantList wanted() const {
    WantList want(static_cast<u32>(own_.size()));
    for (u32 i = 0; i < own_.size(); i++)
      if (!came_ahead(own_[i]) && !shelf_.has(index_.chunks[own_[i]])) want.set(i);
    return want;
  }

  bool came_ahead(u32 number) const { return ahead_.has(index_.chunks[number]); }

  Result<> receive_chunk(u32 number) {
    CKPT_TRY(Bytes body, link_.receive(Kind::Chunk));
    Reader in(body);
    bool right = in.get<u32>() == number;
    const ChunkEntry &c = index_.chunks[number];
    ByteView stored = in.raw(in.left());
    if (!right || stored.size() != c.stored_size) return malformed("Chunk");
    if (storage::xxh3_64(stored) != c.stored_checksum)
      return fail_with_hint(fmt::format("chunk {} of the image has a wrong checksum", number),
                            "the bytes were changed on the way; migrate again");
    return to_.write(c.offset, stored);
  }

  Result<> copy_chunk(u32 number) {
    const ChunkEntry &c = index_.chunks[number];
    Bytes stored(c.stored_size);
    CKPT_CHECK(shelf_.read(c, stored));
    CKPT_CHECK(link_.beat());
    return to_.write(c.offset, stored);
  }

  FrameLink &link_;
  const storage::Index index_;
  const std::vector<u32> own_;
  storage::Destination &to_;
  const ChunkShelf &shelf_;
  const AheadIn &ahead_;
};

}  // namespace

Result<Stored> receive_image(FrameLink &link, const ImageOffer &offer, const std::string &path,
                             const ChunkShelf &shelf, const storage::Key *key,
                             std::optional<AheadIn> ahead) {
  CKPT_TRY(Bytes bytes, receive_index(link, offer.index_bytes));
  CKPT_TRY(storage::Index index, storage::parse_index(bytes, key));
  u64 there = ahead ? std::min(ahead->bytes(), index.chunks_file_size) : 0;
  CKPT_CHECK(check_room(path, index.chunks_file_size - there + bytes.size()));
  if (!ahead) {
    CKPT_TRY(ahead, AheadIn::begin(path));
  }
  std::unique_ptr<storage::FolderDestination> to = ahead->destination();
  CKPT_TRY(Stored stored, IncomingImage(link, std::move(index), *to, shelf, *ahead).receive());
  CKPT_CHECK(to->finish(bytes));
  return stored;
}

}  // namespace ckpt::tools

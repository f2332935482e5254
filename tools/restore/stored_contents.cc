// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/stored_contents.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include "common/base/io.h"

namespace ckpt::tools {
namespace {

Result<> clear(int fd, u64 begin, u64 end) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (begin >= end) return {};
  if (::fallocate(fd, kHole, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) == 0)
    return {};
  return fail_errno("cannot clear it");
}

}  // namespace

Result<> write_contents(int fd, const ImageManifest::StoredFile &f,
                        const storage::ImageReader &image) {
  const storage::StreamEntry *stream = image.find(f.stream);
  if (!stream || stream->size != data_bytes(f))
    return fail("the image is damaged: it lacks the contents");
  Bytes buffer(storage::kChunkBytes);
  u64 read = 0, cleared = 0;
  for (auto [offset, length] : f.extents) {
    CKPT_CHECK(clear(fd, cleared, offset));
    cleared = offset + length;
    for (u64 at = offset; at < cleared;) {
      auto piece = std::span(buffer).first(std::min<u64>(buffer.size(), cleared - at));
      CKPT_CHECK(image.read(*stream, read, piece));
      CKPT_CHECK(write_all_at(fd, piece, static_cast<off_t>(at)));
      at += piece.size();
      read += piece.size();
    }
  }
  return clear(fd, cleared, f.size);
}

}  // namespace ckpt::tools

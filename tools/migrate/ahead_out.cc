// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/ahead_out.h"

#include <fcntl.h>

#include "common/base/io.h"
#include "storage/format/hash.h"

namespace ckpt::tools {

// A dump that begins again has another file, and the receiver forgets what it has of the first.
Result<> AheadOut::open(FrameLink &link, u32 round, const std::string &file) {
  if (file == name_) return {};
  name_ = file;
  file_.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return link.send(Kind::Begin, Writer().put(round).bytes());
}

Result<> AheadOut::send(FrameLink &link, u32 round, const std::string &file, u64 offset,
                        u32 bytes) {
  if (offset < storage::kChunksHeaderBytes || bytes > kMaxFrameBytes - sizeof offset) return {};
  CKPT_CHECK(open(link, round, file));
  Bytes stored(bytes);
  Result<size_t> read = read_at(file_.get(), stored, static_cast<off_t>(offset));
  if (!read || *read < bytes || there_.contains(storage::xxh3_64(stored))) return link.beat();
  return link.send(Kind::Ahead, Writer().put(offset).bytes(), stored);
}

void AheadOut::arrived(const storage::Index &index) {
  for (const storage::ChunkEntry &c : index.chunks)
    if (c.stored_size > 0) there_.insert(c.stored_checksum);
}

}  // namespace ckpt::tools

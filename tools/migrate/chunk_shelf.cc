// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/chunk_shelf.h"

namespace ckpt::tools {

using storage::ChunkEntry;
using storage::Codec;

// A delta refers to its base by a number of its own image's table.
void ChunkShelf::add(std::unique_ptr<storage::ImageReader> image) {
  const std::vector<ChunkEntry> &chunks = image->index().chunks;
  for (u32 i = 0; i < chunks.size(); i++)
    if (chunks[i].file == 0 && chunks[i].stored_size > 0 && chunks[i].codec != Codec::Delta)
      places_.insert_or_assign(chunks[i].address, Place{images_.size(), i});
  images_.push_back(std::move(image));
}

const ChunkShelf::Place *ChunkShelf::find(const ChunkEntry &chunk) const {
  auto it = places_.find(chunk.address);
  if (it == places_.end()) return nullptr;
  const ChunkEntry &ours = images_[it->second.image]->index().chunks[it->second.chunk];
  bool same = ours.stored_checksum == chunk.stored_checksum &&
              ours.stored_size == chunk.stored_size && ours.raw_size == chunk.raw_size &&
              ours.codec == chunk.codec;
  return same ? &it->second : nullptr;
}

bool ChunkShelf::has(const ChunkEntry &chunk) const { return find(chunk) != nullptr; }

Result<> ChunkShelf::read(const ChunkEntry &chunk, std::span<std::byte> stored) const {
  const Place *place = find(chunk);
  if (!place) return fail("a chunk of an earlier round has vanished");
  return images_[place->image]->read_stored(place->chunk, stored);
}

}  // namespace ckpt::tools

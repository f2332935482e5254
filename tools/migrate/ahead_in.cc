// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/ahead_in.h"

#include "storage/format/hash.h"

namespace ckpt::tools {
namespace {

// Bounds the memory for a hostile machine's pieces of one byte. More are asked for afterwards.
constexpr size_t kMostPieces = 1u << 20;

}  // namespace

Result<AheadIn> AheadIn::begin(const std::string &path) {
  AheadIn in;
  CKPT_TRY(in.to_, storage::FolderDestination::create(path, false, storage::FileSystem::real()));
  return in;
}

Result<> AheadIn::take(const Piece &piece) {
  if (arrived_.size() >= kMostPieces) return {};
  arrived_[piece.offset] = {static_cast<u32>(piece.stored.size()), storage::xxh3_64(piece.stored)};
  bytes_ += piece.stored.size();
  return to_->write(piece.offset, piece.stored);
}

bool AheadIn::has(const storage::ChunkEntry &chunk) const {
  auto it = arrived_.find(chunk.offset);
  return it != arrived_.end() && it->second.bytes == chunk.stored_size &&
         it->second.checksum == chunk.stored_checksum;
}

}  // namespace ckpt::tools

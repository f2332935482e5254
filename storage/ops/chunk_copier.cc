// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/copy.h"

#include <algorithm>
#include <unordered_map>

#include "storage/format/index.h"
#include "storage/io/destination.h"
#include "storage/write/parent_chunks.h"

namespace ckpt::storage {
namespace {

struct AddressHash {
  size_t operator()(const ChunkAddress &a) const { return static_cast<size_t>(a.low); }
};

FileSystem &or_real(FileSystem *fs) { return fs ? *fs : FileSystem::real(); }

// One copy under way: which chunks lie where in it, and which bytes of the old files they are.
class ChunkCopier {
 public:
  // `dropped`: the new image may not need these; null: it may need none at all.
  ChunkCopier(const ImageReader &from, const std::vector<Uuid> *dropped)
      : from_(from), dropped_(dropped), out_(from.index()) {
    out_.chunks.clear();
  }

  // Chunks of dropped parents that lie in the own file of `other` are referred to there.
  void may_use(const ImageReader &other, const std::string &name) {
    u32 file = file_of(other, name);
    for (ChunkEntry c : other.index().chunks) {
      // A delta's base has its number in that image's table; a delta is small, and copied.
      if (c.file != 0 || c.codec == Codec::Zero || c.codec == Codec::Delta) continue;
      c.file = file;
      elsewhere_.try_emplace(c.address, c);
    }
  }

  Result<> run(Destination &to, const Key *key) {
    place_chunks();
    CKPT_CHECK(to.write(0, encode_chunks_header(out_.uuid)));
    CKPT_CHECK(copy_chunks(to));
    drop_unused_parents(out_);
    CKPT_TRY(Bytes index, encode_index(out_, key));
    return to.finish(index);
  }

 private:
  u32 file_of(const ImageReader &other, const std::string &name) {
    auto it = std::ranges::find(out_.parents, other.index().uuid, &ParentEntry::uuid);
    if (it == out_.parents.end()) it = out_.parents.insert(it, {other.index().uuid, 0, name});
    it->size = other.index().chunks_file_size;
    return static_cast<u32>(it - out_.parents.begin()) + 1;
  }

  bool is_dropped(u32 file) const {
    if (file == 0) return false;
    const Uuid &uuid = from_.index().parents[file - 1].uuid;
    return !dropped_ || std::ranges::find(*dropped_, uuid) != dropped_->end();
  }

  // Own chunks first, at the places that they have: later images refer to them there.
  void place_chunks() {
    const std::vector<ChunkEntry> &old = from_.index().chunks;
    std::vector<u32> order, copied, foreign;
    std::vector<ChunkEntry> placed = old;
    for (u32 i = 0; i < old.size(); ++i) {
      if (is_dropped(old[i].file)) {
        auto it = elsewhere_.find(old[i].address);
        placed[i] = it == elsewhere_.end() ? old[i] : it->second;
        if (it == elsewhere_.end()) placed[i].file = 0;
      }
      (placed[i].file != 0 ? foreign : old[i].file != 0 ? copied : order).push_back(i);
    }
    order.insert(order.end(), copied.begin(), copied.end());
    own_ = order;
    order.insert(order.end(), foreign.begin(), foreign.end());
    take_in(order, placed);
  }

  void take_in(const std::vector<u32> &order, const std::vector<ChunkEntry> &placed) {
    std::vector<u32> renumbered(order.size());
    u64 end = kChunksHeaderBytes;
    for (u32 i : order) {
      renumbered[i] = static_cast<u32>(out_.chunks.size());
      out_.chunks.push_back(placed[i]);
      if (placed[i].file != 0) continue;
      out_.chunks.back().offset = end;
      end += placed[i].stored_size;
    }
    out_.chunks_file_size = end;
    for (ChunkEntry &c : out_.chunks)
      if (c.codec == Codec::Delta) c.base = renumbered[c.base];
    for (StreamEntry &s : out_.streams)
      for (u32 &c : s.chunks) c = renumbered[c];
  }

  Result<> copy_chunks(Destination &to) {
    Bytes stored;
    for (size_t i = 0; i < own_.size(); ++i) {
      stored.resize(out_.chunks[i].stored_size);
      CKPT_CHECK(from_.read_stored(own_[i], stored));
      CKPT_CHECK(to.write(out_.chunks[i].offset, stored));
    }
    return {};
  }

  const ImageReader &from_;
  const std::vector<Uuid> *dropped_;
  Index out_;
  std::vector<u32> own_;  // numbers in the old table of the chunks that are the new image's own
  std::unordered_map<ChunkAddress, ChunkEntry, AddressHash> elsewhere_;
};

}  // namespace

Result<> flatten_image(const ImageReader &from, const std::string &to, const CopyOptions &options) {
  CKPT_TRY(auto folder,
           FolderDestination::create(to, options.overwrite, or_real(options.file_system)));
  return ChunkCopier(from, nullptr).run(*folder, options.key);
}

Result<> send_image(const ImageReader &from, int fd, const Key *key) {
  CKPT_TRY(auto pipe, PipeDestination::create(fd));
  return ChunkCopier(from, nullptr).run(*pipe, key);
}

Result<> free_of_parents(const ImageReader &from, const std::vector<Uuid> &dropped,
                         const std::vector<const ImageReader *> &kept, const CopyOptions &options) {
  CKPT_TRY(auto folder, FolderDestination::create(from.path(), true, or_real(options.file_system)));
  ChunkCopier rewriting(from, &dropped);
  for (const ImageReader *other : kept) rewriting.may_use(*other, split_path(other->path()).name);
  return rewriting.run(*folder, options.key);
}

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/prune.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "storage/io/destination.h"
#include "storage/io/partial_folder.h"
#include "storage/ops/chunk_copier.h"
#include "storage/ops/removal_lock.h"

namespace ckpt::storage {
namespace {

struct Member {
  std::string path;
  u64 generation = 0;
  timespec written{};
  Uuid uuid{};
};

bool is_older(const Member &a, const Member &b) {
  auto order = [](const Member &m) {
    return std::tuple(m.generation, m.written.tv_sec, m.written.tv_nsec, m.path);
  };
  return order(a) < order(b);
}

// An unreadable image may belong to the chain and need an image that would be removed.
Failure refuse_unreadable(const std::string &path, const Error &why) {
  return fail_with_hint(
      fmt::format("nothing was pruned, because an image cannot be read: {}", why.what),
      "repair it, or move it out of the folder: " + path);
}

// The image at `path` if it belongs to the chain of `first`.
Result<std::optional<Member>> member_of_chain(const ImageReader &first, const std::string &path,
                                              const ReadOptions &options) {
  struct stat st;
  if (::lstat((path + "/" + kIndexFile).c_str(), &st) != 0) return std::nullopt;
  auto image = ImageReader::open(path, options);
  // All images of a chain have the same key or none.
  if (!image && has_other_key(path, options)) return std::nullopt;
  if (!image) return refuse_unreadable(path, image.error());
  const Index &index = (*image)->index();
  if (index.seed != first.index().seed) return std::nullopt;
  return Member{path, index.generation, st.st_mtim, index.uuid};
}

Result<std::vector<Member>> find_chain(const std::string &image, const ReadOptions &options) {
  CKPT_TRY(auto first, ImageReader::open(image, options));
  CKPT_TRY(std::vector<std::string> paths,
           list_images(FileSystem::or_real(options.file_system), split_path(image).folder));
  std::vector<Member> members;
  for (const std::string &path : paths) {
    CKPT_TRY(std::optional<Member> member, member_of_chain(*first, path, options));
    if (member) members.push_back(std::move(*member));
  }
  std::ranges::sort(members, is_older);
  return members;
}

Result<std::vector<UniqueFd>> lock_all(const std::vector<Member> &members, FileSystem &fs) {
  std::vector<UniqueFd> locks;
  for (const Member &m : members) {
    CKPT_TRY(UniqueFd lock, lock_for_removal(fs, m.path));
    locks.push_back(std::move(lock));
  }
  return locks;
}

bool uses_any(const Index &index, const std::vector<Uuid> &uuids) {
  return std::ranges::any_of(index.parents, [&](const ParentEntry &p) {
    return std::ranges::find(uuids, p.uuid) != uuids.end();
  });
}

// Replaces an image by a copy that does not need the parents `dropped`. Chunks that `others`,
// images in the same folder, have in their own files are referred to there.
Result<> rewrite_without(const ImageReader &image, const std::vector<Uuid> &dropped,
                         const std::vector<const ImageReader *> &others,
                         const ReadOptions &options) {
  FileSystem &fs = FileSystem::or_real(options.file_system);
  CKPT_TRY(auto folder, FolderDestination::create(image.path(), true, fs));
  ChunkCopier copier(image, dropped);
  for (const ImageReader *other : others) copier.may_use(*other, split_path(other->path()).name);
  return copier.copy(*folder, options.key);
}

// Oldest first, so that later images can refer to the chunks that were copied into earlier ones.
Result<> rewrite_kept(const std::vector<Member> &kept, const std::vector<Uuid> &dropped,
                      const ReadOptions &options) {
  std::vector<std::unique_ptr<ImageReader>> done;
  std::vector<const ImageReader *> views;
  for (const Member &m : kept) {
    CKPT_TRY(auto image, ImageReader::open(m.path, options));
    if (uses_any(image->index(), dropped)) {
      CKPT_CHECK(rewrite_without(*image, dropped, views, options));
      CKPT_TRY(image, ImageReader::open(m.path, options));
    }
    done.push_back(std::move(image));
    views.push_back(done.back().get());
  }
  return {};
}

// Newest first: if this is interrupted, each remaining image still has its parents.
Result<std::vector<std::string>> remove_all(const std::vector<Member> &dropped, FileSystem &fs) {
  std::vector<std::string> removed;
  for (auto m = dropped.rbegin(); m != dropped.rend(); ++m) {
    CKPT_CHECK(remove_published(fs, m->path));
    removed.insert(removed.begin(), m->path);
  }
  return removed;
}

}  // namespace

bool has_other_key(const std::string &path, const ReadOptions &options) {
  FileSystem &fs = FileSystem::or_real(options.file_system);
  std::byte header[kIndexHeaderBytes];
  UniqueFd fd(fs.open((path + "/" + kIndexFile).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || !read_at(fs, fd.get(), header, sizeof header, 0, path)) return false;
  Reader in(header);
  in.raw(kIndexUuidOffset);
  Uuid uuid;
  std::memcpy(uuid.data(), in.raw(uuid.size()).data(), uuid.size());
  u64 check = in.get<u64>();
  return check != 0 && !(options.key && options.key->check(uuid) == check);
}

Result<PruneReport> prune_chain(const std::string &image, size_t keep, const ReadOptions &options) {
  if (keep == 0) return fail("at least one image must be kept");
  FileSystem &fs = FileSystem::or_real(options.file_system);
  CKPT_TRY(std::vector<Member> chain, find_chain(image, options));
  auto first_kept = chain.end() - static_cast<ptrdiff_t>(std::min(keep, chain.size()));
  const std::vector<Member> dropped(chain.begin(), first_kept), kept(first_kept, chain.end());
  CKPT_TRY(std::vector<UniqueFd> locks, lock_all(dropped, fs));
  std::vector<Uuid> uuids;
  for (const Member &m : dropped) uuids.push_back(m.uuid);
  CKPT_CHECK(rewrite_kept(kept, uuids, options));
  PruneReport out;
  for (const Member &m : kept) out.kept.push_back(m.path);
  CKPT_TRY(out.removed, remove_all(dropped, fs));
  return out;
}

}  // namespace ckpt::storage

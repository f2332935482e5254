// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/prune.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>

#include "storage/io/partial_folder.h"
#include "storage/ops/copy.h"

namespace ckpt::storage {
namespace {

constexpr size_t kUuidAt = 40;  // in index.ckpt

struct Member {
  std::string path;
  u64 generation = 0;
  timespec written{};
  Uuid uuid{};
};

FileSystem &file_system(const ReadOptions &options) {
  return options.file_system ? *options.file_system : FileSystem::real();
}

bool is_older(const Member &a, const Member &b) {
  auto order = [](const Member &m) {
    return std::tuple(m.generation, m.written.tv_sec, m.written.tv_nsec, m.path);
  };
  return order(a) < order(b);
}

// An image under another key, or under none where the chain has one. A chain has one key.
bool has_other_key(const std::string &path, const ReadOptions &options) {
  FileSystem &fs = file_system(options);
  std::byte header[kIndexHeaderBytes];
  UniqueFd fd(fs.open((path + "/" + kIndexFile).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || !read_at(fs, fd.get(), header, sizeof header, 0, path)) return false;
  Reader in(header);
  in.raw(kUuidAt);
  Uuid uuid;
  std::memcpy(uuid.data(), in.raw(uuid.size()).data(), uuid.size());
  u64 check = in.get<u64>();
  return check != 0 && !(options.key && options.key->check(uuid) == check);
}

// An image that cannot be read may be of the chain, and need what is to go.
Failure refuse_unreadable(const std::string &path, const Error &why) {
  return fail_with_hint(
      fmt::format("nothing is pruned beside an image that cannot be read: {}", why.what),
      "mend it, or move it away: " + path);
}

Result<std::vector<Member>> find_chain(const std::string &image, const ReadOptions &options) {
  CKPT_TRY(auto first, ImageReader::open(image, options));
  PathParts parts = split_path(image);
  CKPT_TRY(UniqueFd folder, open_folder(file_system(options), parts.folder));
  CKPT_TRY(std::vector<std::string> names, list_folder(folder.get(), parts.folder));
  std::vector<Member> members;
  for (const std::string &name : names) {
    if (is_partial_name(name)) continue;
    std::string path = parts.folder + "/" + name;
    struct stat st;
    if (::lstat((path + "/" + kIndexFile).c_str(), &st) != 0) continue;
    auto other = ImageReader::open(path, options);
    if (!other && has_other_key(path, options)) continue;
    if (!other) return refuse_unreadable(path, other.error());
    if ((*other)->index().seed != first->index().seed) continue;
    members.push_back({path, (*other)->index().generation, st.st_mtim, (*other)->index().uuid});
  }
  std::ranges::sort(members, is_older);
  return members;
}

// Nobody may begin an increment on what is about to go, and nobody may have begun one.
Result<std::vector<UniqueFd>> lock_all(const std::vector<Member> &members, FileSystem &fs) {
  std::vector<UniqueFd> locks;
  for (const Member &m : members) {
    CKPT_TRY(UniqueFd folder, open_folder(fs, m.path));
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return fail_with_hint(m.path + " is the parent of a dump that is under way: not pruned",
                            "try again when it is over");
    locks.push_back(std::move(folder));
  }
  return locks;
}

bool uses_any(const Index &index, const std::vector<Uuid> &uuids) {
  return std::ranges::any_of(index.parents, [&](const ParentEntry &p) {
    return std::ranges::find(uuids, p.uuid) != uuids.end();
  });
}

// Oldest first: what one has copied, those after it refer to.
Result<> free_all(const std::vector<Member> &kept, const std::vector<Uuid> &dropped,
                  const ReadOptions &options) {
  std::vector<std::unique_ptr<ImageReader>> done;
  std::vector<const ImageReader *> views;
  for (const Member &m : kept) {
    CKPT_TRY(auto image, ImageReader::open(m.path, options));
    if (uses_any(image->index(), dropped)) {
      CKPT_CHECK(free_of_parents(*image, dropped, views,
                                 {.key = options.key, .file_system = options.file_system}));
      CKPT_TRY(image, ImageReader::open(m.path, options));
    }
    done.push_back(std::move(image));
    views.push_back(done.back().get());
  }
  return {};
}

}  // namespace

Result<> check_not_a_parent(const std::string &image, const ReadOptions &options) {
  PathParts parts = split_path(image);
  CKPT_TRY(UniqueFd folder, open_folder(file_system(options), parts.folder));
  CKPT_TRY(std::vector<std::string> names, list_folder(folder.get(), parts.folder));
  for (const std::string &name : names) {
    std::string path = parts.folder + "/" + name;
    struct stat st;
    if (is_partial_name(name) || ::lstat((path + "/" + kIndexFile).c_str(), &st) != 0) continue;
    auto other = ImageReader::open(path, options);
    if (!other) continue;
    const std::vector<ParentEntry> &used = (*other)->index().parents;
    if (std::ranges::find(used, parts.name, &ParentEntry::name) != used.end())
      return fail_with_hint(fmt::format("{} is a parent of {}: not replaced", image, path),
                            fmt::format("choose another name, or `ckpt-image flatten {}`", path));
  }
  return {};
}

Result<PruneReport> prune_chain(const std::string &image, size_t keep, const ReadOptions &options) {
  if (keep == 0) return fail("at least one image must be kept");
  CKPT_TRY(std::vector<Member> kept, find_chain(image, options));
  size_t surplus = kept.size() - std::min(keep, kept.size());
  std::vector<Member> dropped(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(surplus));
  kept.erase(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(surplus));
  CKPT_TRY(std::vector<UniqueFd> locks, lock_all(dropped, file_system(options)));
  std::vector<Uuid> uuids;
  for (const Member &m : dropped) uuids.push_back(m.uuid);
  CKPT_CHECK(free_all(kept, uuids, options));
  PruneReport out;
  for (const Member &m : kept) out.kept.push_back(m.path);
  // Newest first: should we be stopped, what is left still has its parents.
  for (auto m = dropped.rbegin(); m != dropped.rend(); ++m) {
    CKPT_CHECK(remove_published(file_system(options), m->path));
    out.removed.insert(out.removed.begin(), m->path);
  }
  return out;
}

}  // namespace ckpt::storage

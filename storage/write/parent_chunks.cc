// SPDX-License-Identifier: Apache-2.0
#include "storage/write/parent_chunks.h"

#include <algorithm>
#include <filesystem>

#include "storage/io/partial_folder.h"

namespace ckpt::storage {
namespace {

namespace fs = std::filesystem;

Result<std::string> real_path(const std::string &path) {
  std::error_code ec;
  fs::path real = fs::canonical(path, ec);
  if (ec) return fail("cannot open {}: {}", path, ec.message());
  return real.string();
}

// The name of the parent's folder, as the index of its child stores it.
Result<std::string> name_beside(const std::string &path, const std::string &final_path) {
  CKPT_TRY(std::string parent, real_path(path));
  PathParts child = split_path(final_path), parts = split_path(parent);
  CKPT_TRY(std::string folder, real_path(child.folder));
  if (folder != parts.folder)
    return fail_with_hint(
        fmt::format("the parent {} is not in the folder of {}", path, final_path),
        "write an increment into the same folder as the image that it is based on");
  return parts.name;
}

// Includes the parent's own parents.
Result<> check_replaces_none(const std::vector<ParentEntry> &files, const std::string &final_path) {
  std::string name = split_path(final_path).name;
  if (std::ranges::find(files, name, &ParentEntry::name) == files.end()) return {};
  return fail_with_hint(fmt::format("{} cannot replace its own parent", final_path),
                        "choose another name");
}

bool has_parent(const ImageReader &image, const std::string &name) {
  const std::vector<ParentEntry> &parents = image.index().parents;
  return std::ranges::find(parents, name, &ParentEntry::name) != parents.end();
}

}  // namespace

Result<std::unique_ptr<ParentChunks>> ParentChunks::open(const std::string &path,
                                                         const std::string &final_path,
                                                         const ReadOptions &options) {
  CKPT_TRY(std::string name, name_beside(path, final_path));
  auto out = std::make_unique<ParentChunks>();
  ReadOptions held = options;
  held.hold = true;
  CKPT_TRY(out->image_, ImageReader::open(path, held));
  const Index &index = out->index();
  if (options.key && index.key_check == 0)
    return fail_with_hint(fmt::format("the parent {} is not encrypted", path),
                          "an encrypted increment needs an encrypted parent: encrypt neither, or "
                          "write an image without a parent");
  out->files_.push_back({index.uuid, index.chunks_file_size, name});
  out->files_.insert(out->files_.end(), index.parents.begin(), index.parents.end());
  CKPT_CHECK(check_replaces_none(out->files_, final_path));
  return out;
}

std::vector<ChunkEntry> ParentChunks::chunks() const {
  std::vector<ChunkEntry> out = index().chunks;
  for (ChunkEntry &c : out) ++c.file;
  return out;
}

void drop_unused_parents(Index &index) {
  std::vector<u32> renumbered(index.parents.size() + 1, 0);
  for (const ChunkEntry &c : index.chunks) renumbered[c.file] = 1;
  std::vector<ParentEntry> used;
  for (size_t file = 1; file < renumbered.size(); ++file) {
    if (!renumbered[file]) continue;
    used.push_back(std::move(index.parents[file - 1]));
    renumbered[file] = static_cast<u32>(used.size());
  }
  renumbered[0] = 0;
  for (ChunkEntry &c : index.chunks) c.file = renumbered[c.file];
  index.parents = std::move(used);
}

Result<> check_not_a_parent(const std::string &image, const ReadOptions &options) {
  PathParts parts = split_path(image);
  CKPT_TRY(std::vector<std::string> paths,
           list_images(FileSystem::or_real(options.file_system), parts.folder));
  for (const std::string &path : paths) {
    auto other = ImageReader::open(path, options);
    if (other && has_parent(**other, parts.name))
      return fail_with_hint(
          fmt::format("{} is a parent of {}: not replaced", image, path),
          fmt::format("choose another name, or run `ckpt-image flatten {}`", path));
  }
  return {};
}

}  // namespace ckpt::storage

// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/file_hashes.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "common/base/regular_file.h"
#include "tools/manifest/file_checks.h"

namespace ckpt::tools {
namespace {

// The head of the ELF note NT_GNU_BUILD_ID (type 3, name "GNU"), which linkers put into the first
// page (elf(5)). CRIU compares these notes (criu restore --file-validation).
bool has_build_id(const std::string &path) {
  constexpr std::string_view kNote("\3\0\0\0GNU\0", 8);
  std::array<char, 4096> head;
  UniqueFd fd = open_regular(path);
  ssize_t n = fd ? ::read(fd.get(), head.data(), head.size()) : -1;
  if (n <= 0) return false;
  std::string_view text(head.data(), static_cast<size_t>(n));
  return text.starts_with("\177ELF") && text.find(kNote) != std::string_view::npos;
}

}  // namespace

void FileHashes::add_open_files(const DescriptorTable &table) {
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors)
      if (d.kind == Descriptor::Kind::File && !d.deleted && !d.writable() && !d.made_by_kernel())
        add(d.target);
}

std::optional<u64> FileHashes::add_mapped_file(const std::string &path) {
  AsUser as(user_);
  return has_build_id(files_ + path) ? std::nullopt : add(path);
}

std::optional<u64> FileHashes::of_shared_file(const std::string &path) {
  struct stat st {};
  struct statfs fs {};
  std::string here = files_ + path;
  AsUser as(user_);
  if (::stat(here.c_str(), &st) < 0 || static_cast<u64>(st.st_size) > shared_bytes_left_ ||
      ::statfs(here.c_str(), &fs) < 0 || static_cast<long>(fs.f_type) == TMPFS_MAGIC)
    return std::nullopt;
  shared_bytes_left_ -= static_cast<u64>(st.st_size);
  return hash_of_file(here);
}

std::optional<u64> FileHashes::add(const std::string &path) {
  struct stat st {};
  std::string here = files_ + path;
  AsUser as(user_);
  if (::stat(here.c_str(), &st) < 0) return std::nullopt;
  i64 mtime_ns = modification_time(st);
  if (auto known = find(path, mtime_ns)) return known;
  u64 size = static_cast<u64>(st.st_size);
  if (size > kMaxHashedBytes || size > bytes_left_) return std::nullopt;
  bytes_left_ -= size;
  std::optional<u64> hash = hash_of_file(here);
  if (hash) by_path_[path] = {mtime_ns, *hash};
  return hash;
}

std::optional<u64> FileHashes::find(const std::string &path, i64 mtime_ns) const {
  auto it = by_path_.find(path);
  if (it == by_path_.end() || it->second.mtime_ns != mtime_ns) return std::nullopt;
  return it->second.hash;
}

}  // namespace ckpt::tools

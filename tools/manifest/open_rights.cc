// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/open_rights.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/base/as_user.h"

namespace ckpt::tools {
namespace {

constexpr const char *kAdvice =
    "give that user the right before the dump, or let the program close it";

// With which rights a file is opened: R_OK, W_OK, F_OK.
int rights_of(u32 flags) {
  if (flags & O_PATH) return F_OK;
  if ((flags & O_ACCMODE) == O_RDONLY) return R_OK;
  return (flags & O_ACCMODE) == O_WRONLY ? W_OK : R_OK | W_OK;
}

const char *text_of(int rights) {
  if (rights == (R_OK | W_OK)) return "reading and writing";
  return rights == W_OK ? "writing" : "reading";
}

bool refuses(int error) { return error == EACCES || error == EPERM || error == EROFS; }

// CRIU does not open terminals by their names, but gets them from ckpt-restore. Other devices but
// those of memory (/dev/null) are refused before (dump/preflight).
bool is_opened_by_name(const struct stat &st) {
  constexpr unsigned kMemoryDevices = 1;
  return !S_ISSOCK(st.st_mode) && (!S_ISCHR(st.st_mode) || major(st.st_rdev) == kMemoryDevices);
}

// Runs with the user's rights.
class OpenRights {
 public:
  explicit OpenRights(const RestorableImage &image) : image_(image) {
    for (const auto &[id, f] : image.criu.files)
      if (f.link) names_of_links_.insert(f.link);
    for (const auto &[pid, p] : image.criu.processes)
      for (const CriuFiles::Mapping &m : p.mappings)
        if (m.file) of_mappings_[m.file] |= rights_of(m.flags);
  }

  // "": the user may.
  std::string refusal(u32 id, const CriuFiles::File &f) const {
    if (!f.socket.empty()) return refused_socket(f.socket);
    bool elsewhere = f.path.starts_with("/proc/") || image_.manifest.supplied.contains(f.path);
    if (!f.path.starts_with('/') || elsewhere || names_of_links_.contains(id)) return {};
    int rights = rights_of(f.flags);
    if (auto mapped = of_mappings_.find(id); mapped != of_mappings_.end()) rights |= mapped->second;
    if (f.ghost) return refused_ghost(f, rights);
    return refused_file(f, rights);
  }

 private:
  std::string refused_file(const CriuFiles::File &f, int rights) const {
    std::string path = image_.prefix + name_of(f);
    int follow = f.flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
    struct stat st {};
    if (::fstatat(AT_FDCWD, path.c_str(), &st, follow) != 0)
      return refuses(errno) ? fmt::format(
                                  "the program has {} open, and uid {} may not search the "
                                  "folders that lead to it, as a restore has to: {}",
                                  f.path, image_.user.uid, kAdvice)
                            : "";
    if (!is_opened_by_name(st)) return {};
    if (S_ISFIFO(st.st_mode) && rights) rights = R_OK | W_OK;  // CRIU keeps it open meanwhile
    if (::faccessat(AT_FDCWD, path.c_str(), rights, AT_EACCESS | follow) == 0 || !refuses(errno))
      return {};
    return fmt::format(
        "the program has {} open, and uid {} may not open it for {} again, as a restore has to "
        "(its "
        "mode is {:o}, its owner uid {}): {}",
        f.path, image_.user.uid, text_of(rights), st.st_mode & 07777, st.st_uid, kAdvice);
  }

  // An unlinked file that has another name. CRIU finds it by one that the dump has given to it.
  std::string name_of(const CriuFiles::File &f) const {
    auto link = image_.criu.files.find(f.link);
    if (!f.link || link == image_.criu.files.end()) return f.path;
    const std::string &name = link->second.path;
    for (const ImageManifest::Link &l : image_.manifest.links)
      if (l.path == name && ::access((image_.prefix + name).c_str(), F_OK) != 0) return l.kept;
    return name;
  }

  // CRIU makes the file in its folder, gives it owner and mode, and opens it then. It has read the
  // file for the dump.
  std::string refused_ghost(const CriuFiles::File &f, int rights) const {
    auto found = image_.criu.ghosts.find(f.ghost);
    if (found == image_.criu.ghosts.end()) return {};
    const CriuFiles::Ghost &g = found->second;
    rights |= R_OK;
    int owners = static_cast<int>(g.mode >> 6 & 7);
    std::string why;
    if (g.uid != image_.user.uid)
      why = fmt::format("it belongs to uid {}", g.uid);
    else if (!may_give_to(g.gid))
      why = fmt::format("it belongs to gid {}", g.gid);
    else if ((rights & ~owners) != 0)
      why = fmt::format("its mode is {:o}", g.mode & 07777);
    else if (!may_make(f.path))
      why = "its folder is not writable for that user";
    if (why.empty()) return {};
    return fmt::format(
        "the program has the unlinked file {} open, and uid {} may not make it again and open it "
        "for "
        "{}, as a restore has to ({}): {}",
        f.path, image_.user.uid, text_of(rights), why, kAdvice);
  }

  std::string refused_socket(const std::string &path) const {
    if (may_make(path)) return {};
    return fmt::format(
        "the program has a UNIX socket that is bound to {}, and uid {} may not make it again in "
        "its "
        "folder, as a restore has to: {}",
        path, image_.user.uid, kAdvice);
  }

  bool may_give_to(gid_t gid) const {
    return gid == image_.user.gid || std::ranges::count(image_.user.groups, gid) > 0;
  }

  // CRIU takes a folder above where the file's own is missing.
  bool may_make(std::filesystem::path path) const {
    do {
      path = path.parent_path();
      std::string folder = image_.prefix + path.string();
      if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return true;
    } while (errno == ENOENT && path.has_relative_path());
    return !refuses(errno);
  }

  const RestorableImage &image_;
  std::set<u32> names_of_links_;    // CRIU opens them by the file that has the link
  std::map<u32, int> of_mappings_;  // by file: the rights of all mappings
};

}  // namespace

void check_open_rights(const RestorableImage &image, Reasons &reasons) {
  if (image.user.uid == 0) return;
  AsUser as(image.user);
  if (!as.active()) return reasons.push_back("cannot check the files with the rights of its user");
  OpenRights rights(image);
  std::set<std::string> said;
  for (const auto &[id, f] : image.criu.files)
    if (std::string why = rights.refusal(id, f); !why.empty() && said.insert(why).second)
      reasons.push_back(std::move(why));
}

}  // namespace ckpt::tools

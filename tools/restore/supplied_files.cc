// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/supplied_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/ranges.h>

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/manifest/carried_files.h"
#include "tools/restore/stored_contents.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

using CarriedFile = ImageManifest::CarriedFile;

constexpr const char *kOtherFolder = "name a folder on a file system for it (CKPT_RUNTIME_DIR)";

// The image is untrusted: no link and no ".." leads out of the session's folder.
UniqueFd open_beneath(const UniqueFd &folder, const std::string &path, u64 flags, u64 mode = 0) {
  open_how how{.flags = flags | O_CLOEXEC,
               .mode = mode,
               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
}

Result<UniqueFd> make_folders(const UniqueFd &base, const std::filesystem::path &path) {
  UniqueFd folder = open_beneath(base, ".", O_PATH | O_DIRECTORY);
  for (const std::filesystem::path &name : path) {
    if (::mkdirat(folder.get(), name.c_str(), 0700) < 0 && errno != EEXIST)
      return fail_errno("cannot make the folder {}", name.string());
    folder = open_beneath(folder, name, O_PATH | O_DIRECTORY);
    if (!folder) return fail_errno("cannot open the folder {}", name.string());
  }
  return folder;
}

// `path`: below the session's folder.
Result<> write_file(const UniqueFd &session, const std::filesystem::path &path,
                    const CarriedFile &f, const storage::ImageReader &image) {
  CKPT_TRY(UniqueFd folder, make_folders(session, path.parent_path()));
  UniqueFd fd = open_beneath(folder, path.filename(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!fd) return fail_errno("cannot make it");
  if (::ftruncate(fd.get(), static_cast<off_t>(f.size)) < 0)
    return fail_errno("cannot set its size");
  CKPT_CHECK(write_contents(fd.get(), f, image));
  // CRIU compares the mode. The manifest's has no set-user-ID (plausible_name() of image_manifest).
  return ::fchmod(fd.get(), f.mode) == 0 ? Result<>() : fail_errno("cannot set its rights");
}

u64 supplied_bytes(const ImageManifest &m) {
  u64 bytes = 0;
  for (const CarriedFile &f : m.carried_files)
    if (m.supplied.contains(f.path)) bytes += data_bytes(f);
  return bytes;
}

}  // namespace

void supply_carried_files(ImageManifest &m, unsigned copies, Reasons &reasons) {
  m.supplied = files_to_supply(m);
  if (m.supplied.empty()) return;
  struct statvfs fs {};
  std::string folder = runtime_folder();
  if (::statvfs(folder.c_str(), &fs) != 0) return;
  if (fs.f_flag & ST_NOEXEC)
    reasons.push_back(fmt::format(
        "the program's files that are missing or differ here would be in {}, from which nothing "
        "may be executed (noexec): {}",
        folder, kOtherFolder));
  if (u64 each = supplied_bytes(m), free = fs.f_bavail * fs.f_frsize; each > free / copies)
    reasons.push_back(fmt::format(
        "the program's files that are missing or differ here need {}{} in {}, where {} are free: "
        "make room there, or {}",
        mebibytes_needed(each), copies > 1 ? " for each copy" : "", folder, mebibytes(free),
        kOtherFolder));
}

void warn_of_supplied_files(const ImageManifest &m) {
  constexpr size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const std::string &path : m.supplied) names.push_back(printable(original_path(path)));
  if (names.empty()) return;
  size_t all = names.size();
  if (all > kMostNames) names.resize(kMostNames);
  log::warn(
      "{} file{} of the program {} missing here or differ{} from the image, which supplies {}: "
      "{}{}",
      all, all == 1 ? "" : "s", all == 1 ? "is" : "are", all == 1 ? "s" : "",
      all == 1 ? "it" : "them", fmt::join(names, ", "),
      all > names.size() ? fmt::format(" and {} more", all - names.size()) : "");
}

Result<> SuppliedFiles::write(const ImageManifest &m, const storage::ImageReader &image,
                              const std::string &session) {
  if (m.supplied.empty()) return {};
  UniqueFd folder(::open(session.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno("cannot open {}", session);
  for (size_t i = 0; i < m.carried_files.size(); i++) {
    const CarriedFile &f = m.carried_files[i];
    if (!m.supplied.contains(f.path)) continue;
    std::string here = supplied_path(session, i, f.path);
    std::string inside = here.substr(session.size() + 1);
    // A second attempt of CRIU finds it there.
    if (paths_.contains(f.path)) continue;
    if (Result<> done = write_file(folder, inside, f, image); !done)
      return Failure(std::move(done.error()).in(fmt::format("cannot supply the file {}", f.path)));
    paths_[f.path] = here;
  }
  return {};
}

void SuppliedFiles::edit(ProtoMessage &entry) const {
  constexpr u32 kRegular = 3, kName = 6;  // FileEntry and RegFileEntry of CRIU's images/*.proto
  entry.edit_each(kRegular, [this](ProtoMessage &file) {
    auto it = paths_.find(std::string(text(file.bytes(kName))));
    if (it != paths_.end()) file.set_bytes(kName, view(it->second));
  });
}

}  // namespace ckpt::tools

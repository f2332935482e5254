// SPDX-License-Identifier: Apache-2.0
#include "tools/job/create_once.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/io.h"

namespace ckpt::tools {
namespace {

Result<> fill(int fd, ByteView content, bool lock) {
  CKPT_CHECK(write_all(fd, content));
  if (::fsync(fd) != 0) return fail_errno("cannot write to the disk");
  if (lock && ::flock(fd, LOCK_EX | LOCK_NB) != 0) return fail_errno("cannot lock a file");
  return {};
}

// fsync(2) of a folder: its names are on the disk.
Result<> sync_folder_of(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path();
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fsync(fd.get()) == 0) return {};
  return fail_errno("cannot write {} to the disk", folder);
}

struct Draft {
  std::string path;
  UniqueFd file;
};

Result<Draft> make_draft(const std::string &path, ByteView content, bool lock) {
  Draft d{std::filesystem::path(path).parent_path().string() + "/.draft-XXXXXX", {}};
  d.file.reset(::mkostemp(d.path.data(), O_CLOEXEC));
  if (!d.file) return fail_errno("cannot create a file beside {}", path);
  Result<> filled = fill(d.file.get(), content, lock);
  if (filled) return d;
  ::unlink(d.path.c_str());
  return Failure(std::move(filled.error()).in(path));
}

}  // namespace

Result<bool> create_once(const std::string &path, ByteView content, UniqueFd *keep) {
  CKPT_TRY(Draft draft, make_draft(path, content, keep != nullptr));
  int error = ::link(draft.path.c_str(), path.c_str()) != 0 ? errno : 0;
  ::unlink(draft.path.c_str());
  if (error == EEXIST) return false;
  errno = error;
  if (error) return fail_errno("cannot create {}", path);
  CKPT_CHECK(sync_folder_of(path));
  if (keep) *keep = std::move(draft.file);
  return true;
}

Result<> replace_file(const std::string &path, ByteView content, UniqueFd *keep) {
  CKPT_TRY(Draft draft, make_draft(path, content, keep != nullptr));
  if (::rename(draft.path.c_str(), path.c_str()) != 0) {
    Failure error = fail_errno("cannot replace {}", path);
    ::unlink(draft.path.c_str());
    return error;
  }
  if (keep) *keep = std::move(draft.file);
  return {};
}

}  // namespace ckpt::tools

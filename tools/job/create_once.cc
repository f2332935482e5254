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
Result<> sync_folder(const std::string &folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fsync(fd.get()) == 0) return {};
  return fail_errno("cannot write {} to the disk", folder);
}

}  // namespace

Result<bool> create_once(const std::string &path, ByteView content, UniqueFd *keep) {
  std::string folder = std::filesystem::path(path).parent_path(), draft = folder + "/.draft-XXXXXX";
  UniqueFd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd) return fail_errno("cannot create a file in {}", folder);
  Result<> filled = fill(fd.get(), content, keep != nullptr);
  int error = filled && ::link(draft.c_str(), path.c_str()) != 0 ? errno : 0;
  ::unlink(draft.c_str());
  if (!filled) return Failure(std::move(filled.error()).in(path));
  if (error == EEXIST) return false;
  errno = error;
  if (error) return fail_errno("cannot create {}", path);
  CKPT_CHECK(sync_folder(folder));
  if (keep) *keep = std::move(fd);
  return true;
}

}  // namespace ckpt::tools

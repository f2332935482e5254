// SPDX-License-Identifier: Apache-2.0
#include "common/base/new_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "common/base/io.h"
#include "common/proc/file.h"

namespace ckpt {
namespace {

Result<> copy(int from, int to) {
  std::array<std::byte, 64u << 10> piece;
  for (;;) {
    ssize_t n = ::read(from, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read");
    if (n == 0) return {};
    CKPT_CHECK(write_all(to, std::span(piece).first(static_cast<size_t>(n))));
  }
}

bool is_trusted(const struct stat &st) { return st.st_uid == ::geteuid() || st.st_uid == 0; }

Failure of_another_user(const std::string &path) {
  return fail_with_hint(path + " belongs to another user, or could be changed by one",
                        "choose another name, or a folder that only you may write to");
}

// An own file with a second name may be a link (link(2)) that another user has made to it.
bool is_safe_output(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0 || !is_trusted(st)) return false;
  return !S_ISREG(st.st_mode) || st.st_nlink == 1;
}

// The file at `path`, not opened for reading or writing yet: its name may lead to another one a
// moment later, and opening a device or FIFO does something to it. Follows only links of ours or
// root's.
Result<UniqueFd> find_trusted(const std::string &path, int links_left = 8) {
  UniqueFd found(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!found || ::fstat(found.get(), &st) != 0) return fail_errno("cannot open {}", path);
  if (!is_trusted(st)) return of_another_user(path);
  if (!S_ISLNK(st.st_mode)) return found;
  if (links_left == 0) return fail("too many links lead from {}", path);
  std::array<char, PATH_MAX> target;
  ssize_t n = ::readlinkat(found.get(), "", target.data(), target.size());
  if (n < 0) return fail_errno("cannot read the link {}", path);
  std::filesystem::path there = std::filesystem::path(path).parent_path();
  there /= std::string_view(target.data(), static_cast<size_t>(n));
  return find_trusted(there, links_left - 1);
}

Result<> rename_or_remove(const std::string &name, const std::string &path) {
  if (::rename(name.c_str(), path.c_str()) == 0) return {};
  Failure why = fail_errno("cannot rename {} to {}", name, path);
  ::unlink(name.c_str());
  return why;
}

}  // namespace

Result<std::string> copy_to_unique_file(int from, const std::string &prefix,
                                        const std::string &suffix) {
  std::string name = prefix + "XXXXXX" + suffix;
  UniqueFd file(::mkostemps(name.data(), static_cast<int>(suffix.size()), O_CLOEXEC));
  if (!file) return fail_errno("cannot create {}", name);
  if (Result<> done = copy(from, file.get()); !done) {
    ::unlink(name.c_str());
    return Failure(std::move(done).error().in(name));
  }
  return name;
}

Result<> copy_to_new_file(int from, const std::string &path) {
  CKPT_TRY(std::string name, copy_to_unique_file(from, path + ".", ""));
  return rename_or_remove(name, path);
}

Result<> replace_file(const std::string &path, std::string_view text, mode_t mode) {
  std::string name = path + ".XXXXXX";
  UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return fail_errno("cannot create {}", name);
  Result<> written = write_all(file.get(), view(text));
  if (written && ::fchmod(file.get(), mode) != 0) written = fail_errno("cannot change {}", name);
  if (written) return rename_or_remove(name, path);
  ::unlink(name.c_str());
  return Failure(std::move(written).error().in(name));
}

Result<UniqueFd> open_output(const std::string &path, int flags, mode_t mode) {
  constexpr int kAlways = O_WRONLY | O_CLOEXEC | O_NOCTTY;
  UniqueFd made(::open(path.c_str(), kAlways | O_CREAT | O_EXCL | (flags & O_APPEND), mode));
  if (made) return made;
  if (errno != EEXIST) return fail_errno("cannot create {}", path);
  CKPT_TRY(UniqueFd found, find_trusted(path));
  // By its descriptor, so that it is this file. Without O_CREAT and O_TRUNC, which would do
  // something to it before it is checked. A FIFO has a reader, or it is refused.
  std::string same = proc::fd_path(proc::kSelf, found.get());
  UniqueFd file(::open(same.c_str(), kAlways | O_NONBLOCK | (flags & O_APPEND)));
  if (!file) return fail_errno("cannot open {}", path);
  if (!is_safe_output(file.get())) return of_another_user(path);
  if ((flags & O_TRUNC) && ::ftruncate(file.get(), 0) != 0 && errno != EINVAL)
    return fail_errno("cannot truncate {}", path);
  ::fcntl(file.get(), F_SETFL, flags & O_APPEND);  // blocking again
  return file;
}

}  // namespace ckpt

// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "common/ipc/unix_socket.h"

namespace ckpt::manager {
namespace {

// Anything but a socket is left alone: ckptd may run as root.
Result<> remove_socket(const std::string &path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) < 0) {
    if (errno == ENOENT) return {};
    return fail_errno("cannot read the type of {}", path);
  }
  if (!S_ISSOCK(st.st_mode))
    return fail_with_hint(fmt::format("{} exists and is not a socket", path),
                          "remove it, or start ckptd with another --socket");
  if (::unlink(path.c_str()) < 0) return fail_errno("cannot remove {}", path);
  return {};
}

}  // namespace

SocketFile::~SocketFile() {
  if (!path_.empty()) (void)remove_socket(path_);
}

// The socket of a ckptd that was killed still exists and is replaced. Any user may connect; whether
// the user is served is decided by uid, so that a refused program learns the reason.
Result<UniqueFd> SocketFile::listen(const std::string &path) {
  std::string lock = path + ".lock";
  lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_)
    return fail_with_hint(fmt::format("cannot open {}: {}", lock, std::strerror(errno)),
                          "start ckptd with a --socket in a folder that its user may write to");
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) < 0)
    return fail_with_hint(fmt::format("another ckptd listens on {}", path),
                          "end it, or start this one with another --socket");
  CKPT_CHECK(remove_socket(path));
  CKPT_TRY(UniqueFd socket, listen_unix(path));
  path_ = path;
  if (::chmod(path.c_str(), 0666) < 0) return fail_errno("cannot chmod {}", path);
  return socket;
}

}  // namespace ckpt::manager

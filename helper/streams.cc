// SPDX-License-Identifier: Apache-2.0
#include "helper/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"

namespace ckpt::helper {
namespace {

constexpr std::string_view kStreamFolder = "criu-";
constexpr const char *kDumpSocket = "/streamer-capture.sock";
constexpr const char *kRestoreSocket = "/streamer-serve.sock";
constexpr mode_t kLockedMode = 0755;

}  // namespace

// CRIU runs as the caller: it must be able to read the folder, and to connect. Until then a folder
// has mode 0700 (mkdtemp(3)), and is not locked yet.
Result<StreamFolder> StreamFolder::create(const std::string &parent, For purpose) {
  StreamFolder folder;
  std::string path = fmt::format("{}/{}XXXXXX", parent, kStreamFolder);
  if (!::mkdtemp(path.data())) return fail_errno("cannot create the folder {}", path);
  folder.path_ = path;
  folder.lock_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.lock_ || ::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return fail_errno("cannot lock the folder {}", path);
  folder.socket_ = path + (purpose == For::Dump ? kDumpSocket : kRestoreSocket);
  CKPT_TRY(folder.listener_, listen_unix(folder.socket_));
  if (::chmod(path.c_str(), kLockedMode) != 0 || ::chmod(folder.socket_.c_str(), 0666) != 0)
    return fail_errno("cannot open {} for CRIU", path);
  return folder;
}

void remove_dead_stream_folder(const std::string &parent, const std::string &name) {
  std::string path = fmt::format("{}/{}", parent, name);
  if (!name.starts_with(kStreamFolder)) return;
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!folder || ::fstat(folder.get(), &st) != 0 || st.st_uid != ::geteuid() ||
      (st.st_mode & 0777) != kLockedMode || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
    return;
  for (const char *socket : {kDumpSocket, kRestoreSocket}) ::unlink((path + socket).c_str());
  ::rmdir(path.c_str());
}

StreamFolder::StreamFolder(StreamFolder &&o) noexcept
    : path_(std::exchange(o.path_, {})),
      socket_(std::move(o.socket_)),
      lock_(std::move(o.lock_)),
      listener_(std::move(o.listener_)) {}

StreamFolder::~StreamFolder() {
  if (path_.empty()) return;
  ::unlink(socket_.c_str());
  ::rmdir(path_.c_str());
}

Result<UniqueFd> StreamFolder::accept(int process, const std::function<bool(pid_t)> &is_criu) {
  for (;;) {
    pollfd fds[]{{listener_.get(), POLLIN, 0}, {process, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot wait for CRIU");
    }
    if (fds[0].revents == 0) return UniqueFd();
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!connection) return fail_errno("cannot accept CRIU's connection");
    CKPT_TRY(ucred peer, peer_credentials(connection.get()));
    if (is_criu(peer.pid)) return connection;
  }
}

}  // namespace ckpt::helper

// SPDX-License-Identifier: Apache-2.0
#include "helper/streams.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"

namespace ckpt::helper {

// CRIU runs as the caller: it must be able to read the folder, and to connect.
Result<StreamFolder> StreamFolder::create(const std::string &parent, For purpose) {
  std::string path = parent + "/criu-XXXXXX";
  if (!::mkdtemp(path.data())) return fail_errno("cannot create the folder {}", path);
  std::string socket =
      path + (purpose == For::Dump ? "/streamer-capture.sock" : "/streamer-serve.sock");
  StreamFolder folder(path, socket, {});
  CKPT_TRY(folder.listener_, listen_unix(socket));
  if (::chmod(path.c_str(), 0755) != 0 || ::chmod(socket.c_str(), 0666) != 0)
    return fail_errno("cannot open {} for CRIU", path);
  return folder;
}

StreamFolder::StreamFolder(StreamFolder &&o) noexcept
    : path_(std::exchange(o.path_, {})),
      socket_(std::move(o.socket_)),
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

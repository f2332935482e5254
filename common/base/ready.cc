// SPDX-License-Identifier: Apache-2.0
#include "common/base/ready.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/base/log.h"
#include "common/base/unique_fd.h"

namespace ckpt {

void tell_ready() {
  const char *path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  std::string_view name = path;
  constexpr std::string_view kReady = "READY=1";
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof a.sun_path) return;
  name.copy(a.sun_path, name.size());
  if (name[0] == '@') a.sun_path[0] = '\0';  // abstract
  socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::sendto(fd.get(), kReady.data(), kReady.size(), MSG_NOSIGNAL,
               reinterpret_cast<sockaddr *>(&a), size) < 0)
    log::warn("cannot notify systemd that this daemon listens: {}", std::strerror(errno));
}

}  // namespace ckpt

// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/residue.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/ipc/proc_maps.h"
#include "common/base/driver_files.h"
#include "common/proc/file.h"
#include "common/proc/status.h"

namespace ckpt::agent {
namespace {

constexpr std::string_view kOurMemfds = "/memfd:ckpt-";

using NameOf = int (*)(int, sockaddr *, socklen_t *);

std::string unix_name(int fd, NameOf name_of) {
  sockaddr_un a{};
  socklen_t n = sizeof a;
  if (name_of(fd, reinterpret_cast<sockaddr *>(&a), &n) < 0 || a.sun_family != AF_UNIX) return {};
  size_t room = n > sizeof a.sun_family ? n - sizeof a.sun_family : 0;
  return {a.sun_path, ::strnlen(a.sun_path, std::min(room, sizeof a.sun_path))};
}

// The name of the end that is in the session's folder: the peer of a client (session.sock), or the
// own name of a server (agent-*.sock).
std::string session_end(int fd, const std::string &folder) {
  for (NameOf name_of : {NameOf{::getsockname}, NameOf{::getpeername}})
    if (std::string name = unix_name(fd, name_of); name.starts_with(folder + "/")) return name;
  return {};
}

}  // namespace

Result<std::vector<std::string>> mapped_drivers(const AnswersFor &answered) {
  CKPT_TRY(std::vector<ProcMapping> maps, own_mappings());
  std::vector<std::string> drivers;
  for (const ProcMapping &m : maps)
    if (is_driver_file(m.path) && std::ranges::find(drivers, m.path) == drivers.end() &&
        !answered(m.path))
      drivers.push_back(m.path);
  return drivers;
}

Result<std::vector<std::string>> residue(std::span<const int> expected,
                                         const std::string &session_folder,
                                         const AnswersFor &answered) {
  CKPT_TRY(std::vector<std::string> found, mapped_drivers(answered));
  CKPT_TRY(std::vector<ProcMapping> maps, own_mappings());
  for (const ProcMapping &m : maps)
    if (m.path.starts_with(kOurMemfds))
      found.push_back(fmt::format("a mapping of {} at {:#x}", m.path, m.begin));
  CKPT_TRY(std::vector<int> fds, proc::own_descriptors());
  for (int fd : fds) {
    if (std::ranges::find(expected, fd) != expected.end()) continue;
    if (std::string link = proc::link(proc::kSelf, fmt::format("fd/{}", fd));
        link.starts_with(kOurMemfds))
      found.push_back(fmt::format("descriptor {}, {}", fd, link));
    if (std::string end = session_end(fd, session_folder); !end.empty())
      found.push_back(fmt::format("descriptor {}, a connection of {}", fd, end));
  }
  return found;
}

}  // namespace ckpt::agent

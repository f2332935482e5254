// SPDX-License-Identifier: Apache-2.0
#include "helper/caller.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "common/ipc/unix_socket.h"
#include "helper/status.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace ckpt::helper {
namespace {

constexpr const char *kHint = "run this command as the same user outside of it, or as root";

std::string read_file(const std::string &path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// SO_PEERPIDFD came with Linux 6.5. Before, the process is found by its PID; one that has taken the
// PID of a caller that has ended would have to be confined less, of the same user, and ask nothing.
UniqueFd process_of(int connection, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return UniqueFd(fd);
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

struct Hierarchy {
  std::string controllers;  // "": version 2
  std::string path;
};

// Lines of /proc/PID/cgroup (cgroups(7)): "4:memory:/a/b", or "0::/a/b" for version 2.
std::vector<Hierarchy> cgroups_of(const std::string &pid) {
  std::vector<Hierarchy> all;
  std::istringstream in(read_file("/proc/" + pid + "/cgroup"));
  for (std::string line; std::getline(in, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != line.npos)
      all.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return all;
}

// Where each hierarchy is mounted (mounts of type cgroup name their controllers as options).
std::string mount_point_of(const Hierarchy &h) {
  std::ifstream in("/proc/self/mounts");
  for (std::string device, point, type, options, rest;
       in >> device >> point >> type >> options && std::getline(in, rest);) {
    bool version_2 = h.controllers.empty() && type == "cgroup2";
    bool version_1 = !h.controllers.empty() && type == "cgroup" &&
                     ("," + options + ",").find("," + h.controllers + ",") != std::string::npos;
    if (version_1 || version_2) return point;
  }
  return {};
}

Result<> move_into(const Hierarchy &h) {
  std::string point = mount_point_of(h);
  if (point.empty()) return fail("the control group {} is not mounted", h.path);
  std::string file = fmt::format("{}{}/cgroup.procs", point, h.path);
  UniqueFd procs(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!procs || ::write(procs.get(), "0", 1) != 1) return fail_errno("cannot write {}", file);
  return {};
}

}  // namespace

Result<Caller> Caller::of(int connection) {
  CKPT_TRY(ucred peer, peer_credentials(connection));
  CKPT_TRY(Identity identity, identity_of_peer(connection));
  if (peer.pid <= 0) return fail_with_hint("the caller is in another PID namespace", kHint);
  Caller caller(peer.pid, process_of(connection, peer.pid), std::move(identity));
  if (!caller.process_) return fail("the caller has ended");
  CKPT_CHECK(caller.check_confinement());
  CKPT_CHECK(caller.check_alive());
  return caller;
}

Result<> Caller::check_alive() const {
  pollfd p{process_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) == 0 ? Result<>{} : fail("the caller has ended");
}

Result<> Caller::check_confinement() {
  for (const char *name : {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time"}) {
    u64 theirs = namespace_inode(pid_, name), ours = namespace_inode(::getpid(), name);
    if (theirs != ours || ours == 0)
      return fail_with_hint(
          fmt::format("the caller is in another {} namespace than ckpt-helper", name), kHint);
  }
  CKPT_TRY(Status status, read_status(pid_));
  if (!status.has_uid(identity_.uid))
    return fail("the caller is a setuid program, or has changed its user");
  if (status.no_new_privileges || status.seccomp)
    return fail_with_hint("the caller is in a sandbox (no_new_privs or a system call filter)",
                          kHint);
  std::string label = read_file(fmt::format("/proc/{}/attr/apparmor/current", pid_));
  if (!label.empty() && !label.starts_with("unconfined"))
    return fail_with_hint("the caller is confined by AppArmor", kHint);
  identity_.bounding = status.bounding;
  return {};
}

Result<> Caller::join() const {
  CKPT_CHECK(join_cgroups());
  take_limits();
  return check_alive();
}

Result<> Caller::join_cgroups() const {
  std::map<std::string, std::string> ours;
  for (const Hierarchy &h : cgroups_of("self")) ours[h.controllers] = h.path;
  for (const Hierarchy &h : cgroups_of(std::to_string(pid_)))
    if (ours[h.controllers] != h.path)
      if (Result<> moved = move_into(h); !moved)
        return Failure(std::move(moved).error().in("ckpt-helper cannot enter the caller's group"));
  return {};
}

// Only downwards: what this process may not raise stays as it is.
void Caller::take_limits() const {
  for (int r = 0; r < RLIM_NLIMITS; r++) {
    rlimit limit{};
    auto resource = static_cast<__rlimit_resource>(r);
    if (::prlimit(pid_, resource, nullptr, &limit) == 0) (void)::setrlimit(resource, &limit);
  }
  (void)::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid_)));
  cpu_set_t processors;
  if (::sched_getaffinity(pid_, sizeof processors, &processors) == 0)
    (void)::sched_setaffinity(0, sizeof processors, &processors);
  for (const char *name : {"oom_score_adj", "loginuid"}) {
    std::string value = read_file(fmt::format("/proc/{}/{}", pid_, name));
    std::ofstream(fmt::format("/proc/self/{}", name)) << value;
  }
}

}  // namespace ckpt::helper

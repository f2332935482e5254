// SPDX-License-Identifier: Apache-2.0
#include "helper/caller.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "common/base/file_text.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/file.h"
#include "common/proc/status.h"
#include "helper/cgroups.h"
#include "helper/resource_limits.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace ckpt::helper {
namespace {

constexpr const char *kHint = "run this command as the same user outside of it, or as root";

// SO_PEERPIDFD came with Linux 6.5. Before, the process is found by its PID; one that has taken the
// PID of a caller that has ended would have to be confined less, of the same user, and ask nothing.
UniqueFd process_of(int connection, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return UniqueFd(fd);
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// A caller that prefers others to itself (nice(1) above ours) is served the same way. A right of
// its own to be preferred is not taken over.
Result<> take_nice_value(pid_t pid) {
  errno = 0;
  int theirs = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid));
  if (theirs == -1 && errno != 0) return fail_errno("cannot read the caller's nice value");
  if (theirs > ::getpriority(PRIO_PROCESS, 0) && ::setpriority(PRIO_PROCESS, 0, theirs) != 0)
    return fail_errno("ckpt-helper cannot take over the caller's nice value");
  return {};
}

// sched_getaffinity(2) fails with EINVAL if the set is smaller than the kernel's.
Result<> take_processors(pid_t pid) {
  constexpr size_t kMost = 1u << 16;
  for (size_t processors = CPU_SETSIZE; processors <= kMost; processors *= 2) {
    std::vector<unsigned long> set(processors / (8 * sizeof(unsigned long)));
    auto *its = reinterpret_cast<cpu_set_t *>(set.data());
    size_t bytes = set.size() * sizeof(unsigned long);
    if (::sched_getaffinity(pid, bytes, its) != 0 && errno == EINVAL) continue;
    if (::sched_getaffinity(pid, bytes, its) != 0 || ::sched_setaffinity(0, bytes, its) != 0) break;
    return {};
  }
  return fail_errno("ckpt-helper cannot take over the caller's processors");
}

// A caller that is ended first when memory is short stays so; to be ended later needs a right.
Result<> take_oom_score(pid_t pid) {
  CKPT_TRY(std::string theirs, proc::read(pid, "oom_score_adj"));
  CKPT_TRY(std::string ours, proc::read(proc::kSelf, "oom_score_adj"));
  if (std::atoi(theirs.c_str()) <= std::atoi(ours.c_str())) return {};
  return write_file_text(proc::path(proc::kSelf, "oom_score_adj"), theirs);
}

// The user that the audit log names (pam_loginuid(8)). There is none without CONFIG_AUDIT.
Result<> take_login_uid(pid_t pid) {
  Result<std::string> theirs = proc::read(pid, "loginuid");
  Result<std::string> ours = proc::read(proc::kSelf, "loginuid");
  if (!theirs || !ours || *theirs == *ours) return {};
  return write_file_text(proc::path(proc::kSelf, "loginuid"), *theirs);
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
    u64 theirs = proc::namespace_inode(pid_, name);
    u64 ours = proc::namespace_inode(::getpid(), name);
    if (theirs != ours || ours == 0)
      return fail_with_hint(
          fmt::format("the caller is in another {} namespace than ckpt-helper", name), kHint);
  }
  CKPT_TRY(proc::Status status, proc::read_status(pid_));
  if (!status.has_uid(identity_.uid))
    return fail("the caller is a setuid program, or has changed its user");
  if (status.no_new_privileges || status.seccomp)
    return fail_with_hint("the caller is in a sandbox (no_new_privs or a system call filter)",
                          kHint);
  std::string label = proc::text(pid_, "attr/apparmor/current");
  if (!label.empty() && !label.starts_with("unconfined"))
    return fail_with_hint("the caller is confined by AppArmor", kHint);
  identity_.bounding = status.bounding;
  return {};
}

Result<Limits> Caller::join() const {
  CKPT_CHECK(join_cgroups_of(pid_));
  CKPT_TRY(Limits limits, proc::limits_of(pid_));
  CKPT_CHECK(take_limits(limits));
  CKPT_CHECK(take_nice_value(pid_));
  CKPT_CHECK(take_processors(pid_));
  CKPT_CHECK(take_oom_score(pid_));
  CKPT_CHECK(take_login_uid(pid_));
  CKPT_CHECK(check_alive());
  return limits;
}

}  // namespace ckpt::helper

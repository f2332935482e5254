// SPDX-License-Identifier: Apache-2.0
#include "tools/session/isolation.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "agent/protocol.h"
#include "common/base/file_text.h"
#include "common/base/unique_fd.h"
#include "common/base/words.h"
#include "common/proc/capabilities.h"
#include "common/proc/file.h"
#include "common/proc/status.h"
#include "helper/identity.h"
#include "helper/process_namespace.h"

namespace ckpt::tools {
namespace {

constexpr const char *kWhereAllowed =
    "the administrator may have limited user namespaces (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns): start the "
    "program without --isolate";

Result<> map_user(uid_t uid, gid_t gid) {
  auto write = [](const char *name, const std::string &text) {
    return write_file_text(proc::path(proc::kSelf, name), text);
  };
  // The kernel lets a user map its own group only if the groups can no longer be changed.
  CKPT_CHECK(write("setgroups", "deny"));
  CKPT_CHECK(write("uid_map", fmt::format("{0} {0} 1", uid)));
  return write("gid_map", fmt::format("{0} {0} 1", gid));
}

Result<> start_loopback() {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq device{};
  device.ifr_name[0] = 'l';
  device.ifr_name[1] = 'o';
  if (!socket || ::ioctl(socket.get(), SIOCGIFFLAGS, &device) < 0)
    return fail_errno("cannot find the loopback device of the new network namespace");
  device.ifr_flags = static_cast<short>(device.ifr_flags | IFF_UP);
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &device) < 0)
    return fail_errno("cannot start the loopback device of the new network namespace");
  return {};
}

// The map has one line, "U U 1".
bool maps_one_user(pid_t pid) {
  std::string map = proc::text(pid, "uid_map");
  std::vector<std::string_view> words = words_of(std::string_view(map));
  return words.size() == 3 && words[0] == words[1] && words[0] != "0" && words[2] == "1";
}

}  // namespace

u64 owner_of_namespace(pid_t pid, const char *name) {
  Result<UniqueFd> of = proc::open(pid, fmt::format("ns/{}", name), O_RDONLY);
  UniqueFd owner(of ? ::ioctl(of->get(), NS_GET_USERNS) : -1);
  return owner ? helper::inode_of(owner) : 0;
}

Result<> isolate() {
  uid_t uid = ::geteuid();
  gid_t gid = ::getegid();
  if (uid == 0)
    return fail_with_hint("--isolate is for users, and you are root",
                          "leave it out: root's programs can be checkpointed without it");
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
    return fail_with_hint(
        fmt::format("cannot make namespaces for the program: {}", strerror(errno)), kWhereAllowed);
  ::setenv(protocol::kIsolatedVariable, "1", 1);
  CKPT_CHECK(map_user(uid, gid));
  return start_loopback();
}

bool is_isolated(pid_t pid) {
  u64 user = proc::namespace_inode(pid, "user");
  return user != 0 && user != kFirstUserNamespace && maps_one_user(pid) &&
         owner_of_namespace(pid, "net") == user;
}

bool is_isolated() { return is_isolated(::getpid()); }

Result<> enter_isolation_of(pid_t pid) {
  if (is_isolated() && rights_in_isolation() == 0)
    return fail_with_hint(
        "this command was started by an isolated program (ckpt-run --isolate), which has no rights",
        "run it outside of the program, or let the program call ckpt_checkpoint()");
  if (!is_isolated(pid) ||
      proc::namespace_inode(pid, "user") == proc::namespace_inode(::getpid(), "user"))
    return {};
  CKPT_TRY(UniqueFd user, proc::open(pid, "ns/user", O_RDONLY));
  uid_t owner = 0;
  if (::ioctl(user.get(), NS_GET_OWNER_UID, &owner) < 0 || owner != ::geteuid()) return {};
  CKPT_TRY(UniqueFd net, proc::open(pid, "ns/net", O_RDONLY));
  if (::setns(user.get(), CLONE_NEWUSER) < 0 || ::setns(net.get(), CLONE_NEWNET) < 0)
    return fail_errno("cannot enter the namespaces of process {}", pid);
  return {};
}

u64 rights_in_isolation() {
  constexpr u64 kRights = bit_of(CAP_CHECKPOINT_RESTORE) | bit_of(CAP_SYS_PTRACE) |
                          bit_of(CAP_SYS_ADMIN) | bit_of(CAP_SYS_CHROOT) | bit_of(CAP_NET_ADMIN);
  return is_isolated() ? helper::own_capabilities() & kRights : 0;
}

std::function<void()> keep_isolation() {
  u64 rights = rights_in_isolation();
  if (rights == 0) return [] {};
  return [rights] { helper::pass_on_only(rights); };
}

}  // namespace ckpt::tools

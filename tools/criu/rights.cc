// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/rights.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/ipc/unix_socket.h"
#include "helper/protocol.h"
#include "helper/status.h"

namespace ckpt::tools {
namespace {

using Way = CriuRights::Way;

// What CRIU asks for as root.
constexpr u64 kRootNeeds =
    helper::bit(CAP_CHECKPOINT_RESTORE) | helper::bit(CAP_SYS_PTRACE) | helper::bit(CAP_SYS_ADMIN);

// In a restore also to try the kernel out with a network interface, and to set the clocks.
constexpr u64 kRootRestores = kRootNeeds | helper::bit(CAP_NET_ADMIN) | helper::bit(CAP_SYS_TIME);

void check_root(u64 needed, Reasons &reasons) {
  if (u64 missing = needed & ~helper::own_capabilities())
    reasons.push_back(fmt::format(
        "root lacks {} here: start the container with {}, or run this command outside of it",
        helper::names_of(missing), kContainerOptions));
}

// A process under a filter must not suspend that of another one, which CRIU has to do
// (ptrace(2), PTRACE_O_SUSPEND_SECCOMP).
void check_seccomp(const Target &target, Reasons &reasons) {
  auto is_filtered = [](pid_t pid) {
    Result<helper::Status> s = helper::read_status(pid);
    return s && s->seccomp;
  };
  auto of_program = [&](const Process &p) { return is_filtered(p.pid); };
  if (is_filtered(::getpid()) && std::ranges::any_of(target.processes, of_program))
    reasons.push_back(
        fmt::format("CRIU cannot suspend the program's seccomp filter, because this command runs "
                    "under one, too: "
                    "start the container with {}, or run this command outside of it",
                    kContainerOptions));
}

bool helper_listens() { return connect_unix(helper_socket()).has_value(); }

// For a user other than root. `alone`: CRIU needs only its capabilities.
Way way_of_user(bool alone, Reasons &reasons) {
  u64 missing = helper::criu_capabilities() & ~helper::own_capabilities();
  if (missing == 0 && alone) return Way::Own;
  if (helper_listens()) return Way::Helper;
  if (missing == 0)
    reasons.push_back(fmt::format(
        "the program needs a PID namespace, which a user cannot make: ask the administrator to "
        "start ckpt-helper (systemctl enable --now ckpt-helper.socket), or run this as root"));
  else
    reasons.push_back(fmt::format(
        "CRIU needs {}, and ckpt-helper does not listen on {}: ask the administrator to start it "
        "(systemctl enable --now ckpt-helper.socket), or run this as root",
        helper::names_of(missing), helper_socket()));
  return Way::Own;
}

void check_owner(const std::optional<helper::Identity> &owner, const char *what, Reasons &reasons) {
  if (owner && owner->uid != ::geteuid())
    reasons.push_back(fmt::format("{} belongs to uid {}, and you are uid {}: run this as that user",
                                  what, owner->uid, ::geteuid()));
}

// CRIU sets the groups of the program, which only root may do.
void check_groups(const helper::Identity &owner, Reasons &reasons) {
  std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
  groups.resize(static_cast<size_t>(::getgroups(static_cast<int>(groups.size()), groups.data())));
  if (owner.gid == ::getegid() && owner.groups == groups) return;
  reasons.push_back(
      "the program's groups differ from yours (id shows them): log in with the same groups, or run "
      "this as root");
}

// A program that root has started for a user (setpriv, a service) may have files and a working
// folder and namespaces that the user cannot reach. CRIU then works as root.
bool started_by(const helper::Identity &owner, const Target &target) {
  Result<Process> keeper = read_process(target.keeper);
  return keeper && keeper->credentials().uid == owner.uid;
}

}  // namespace

std::optional<helper::Identity> owner_of(const Target &target) {
  std::optional<helper::Identity> owner;
  for (const Process &p : target.processes) {
    Result<helper::Status> s = helper::read_status(p.pid);
    if (!s) continue;
    if (!owner) owner = {s->uids[0], s->gids[0], s->groups};
    bool one_gid = std::ranges::all_of(s->gids, [&](gid_t g) { return g == owner->gid; });
    if (!s->has_uid(owner->uid) || !one_gid || s->groups != owner->groups) return std::nullopt;
    if (owner->uid != 0 && s->permitted != 0) return std::nullopt;
  }
  return owner;
}

std::optional<helper::Identity> user_served(const Target &target) {
  std::optional<helper::Identity> owner = owner_of(target);
  bool is_other = ::geteuid() == 0 && owner && owner->uid != 0 && started_by(*owner, target);
  return is_other ? owner : std::nullopt;
}

CriuRights rights_to_dump(const Target &target, Reasons &reasons) {
  CriuRights rights;
  std::optional<helper::Identity> owner = owner_of(target);
  if (owner) rights.user = *owner;
  if (::geteuid() == 0) {
    if (user_served(target)) rights.way = Way::ForUser;
    check_root(kRootNeeds, reasons);
    check_seccomp(target, reasons);
    return rights;
  }
  rights.way = way_of_user(!target.own_pid_namespace, reasons);
  if (!owner)
    reasons.push_back(
        "a process of the program has another user, other groups or capabilities: run this as "
        "root");
  check_owner(owner, "the program", reasons);
  return rights;
}

CriuRights rights_to_restore(const ImageManifest &m, bool new_namespace, Reasons &reasons) {
  CriuRights rights;
  if (m.owner) rights.user = *m.owner;
  if (::geteuid() == 0) {
    if (m.owner && m.owner->uid != 0) rights.way = Way::ForUser;
    check_root(kRootRestores, reasons);
    return rights;
  }
  rights.way = way_of_user(!new_namespace, reasons);
  check_owner(m.owner, "the image's program", reasons);
  if (!m.owner)
    reasons.push_back(
        "the image does not name you as the only user of the program: run this as root");
  if (m.owner && m.owner->uid == ::geteuid()) check_groups(*m.owner, reasons);
  return rights;
}

void check_root_can_restore(Reasons &reasons) {
  constexpr u64 kOnlyThen = kRootRestores & ~kRootNeeds;
  if (::geteuid() == 0) check_root(kOnlyThen, reasons);
}

std::string helper_socket() {
  const char *path = ::secure_getenv(helper::kSocketVariable);
  return path && *path ? path : helper::kSocket;
}

std::function<void()> keep_own_capabilities(const CriuRights &rights) {
  u64 kept = rights.way == Way::Own ? helper::criu_capabilities() : 0;
  return [kept] {
    if (kept) (void)helper::pass_on(kept);
  };
}

}  // namespace ckpt::tools

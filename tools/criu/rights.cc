// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/rights.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "common/ipc/unix_socket.h"
#include "common/proc/status.h"
#include "helper/protocol.h"
#include "tools/session/isolation.h"
#include "tools/session/namespace_root.h"

namespace ckpt::tools {
namespace {

using Way = CriuRights::Way;

// What CRIU asks for as root.
constexpr u64 kRootNeeds =
    bit_of(CAP_CHECKPOINT_RESTORE) | bit_of(CAP_SYS_PTRACE) | bit_of(CAP_SYS_ADMIN);

constexpr int kNotExecuted = 127;

// In a restore also to try the kernel out with a network interface, and to set the clocks.
constexpr u64 kRootRestores = kRootNeeds | bit_of(CAP_NET_ADMIN) | bit_of(CAP_SYS_TIME);

void check_root(u64 needed, Reasons &reasons) {
  if (u64 missing = needed & ~helper::own_capabilities())
    reasons.push_back(fmt::format(
        "root lacks {} here: start the container with {}, or run this command outside of it",
        names_of_capabilities(missing), kContainerOptions));
}

// A process under a filter must not suspend that of another one, which CRIU has to do
// (ptrace(2), PTRACE_O_SUSPEND_SECCOMP).
void check_seccomp(const Target &target, Reasons &reasons) {
  auto is_filtered = [](pid_t pid) {
    Result<proc::Status> s = proc::read_status(pid);
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

// For a user other than root. `alone`: CRIU needs only its capabilities. In the namespaces of an
// isolated program its user has all of them.
Way way_of_user(bool alone, Reasons &reasons) {
  if (is_isolated()) return Way::Own;
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
        names_of_capabilities(missing), helper_socket()));
  return Way::Own;
}

void check_user(const Credentials &owner, const char *what, Reasons &reasons) {
  if (owner.uid != ::geteuid())
    reasons.push_back(fmt::format("{} belongs to uid {}, and you are uid {}: run this as that user",
                                  what, owner.uid, ::geteuid()));
}

// CRIU sets the groups of the program, which only root may do.
void check_groups(const Credentials &owner, Reasons &reasons) {
  std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
  groups.resize(static_cast<size_t>(::getgroups(static_cast<int>(groups.size()), groups.data())));
  if (Ownership{owner, {}}.is({::geteuid(), ::getegid(), groups})) return;
  reasons.push_back(
      "the program's groups differ from yours (id shows them): log in with the same groups, or run "
      "this as root");
}

helper::Identity identity_of(const Credentials &user) {
  return {{user.uid, user.gid, user.groups}};
}

// No value: the keeper is root's. A program that root has started for a user (setpriv, a service)
// may have files and a working folder and namespaces that the user cannot reach.
std::optional<Process> keeper_of_user(const Target &target) {
  Process keeper = read_process(target.keeper).value_or(Process());  // of an ended one: no user's
  return keeper.has_only(0) ? std::nullopt : std::optional(std::move(keeper));
}

// Root's CRIU works only for root's keepers. It would obey files and links that the user of another
// keeper can change.
void choose_for_root(const Target &target, const Ownership &owner, CriuRights &rights,
                     Reasons &reasons) {
  std::optional<Process> keeper = keeper_of_user(target);
  if (!keeper) return;
  rights.way = Way::ForUser;
  if (owner.user && owner.user->uid == keeper->credentials().uid) return;
  reasons.push_back(fmt::format(
      "a process of the program has a right that uid {} has not ({}), and CRIU with root's rights "
      "would serve that user: end that process first, or start the whole program by root's "
      "ckpt-run",
      keeper->credentials().uid,
      owner.user ? fmt::format("they belong to uid {}", owner.user->uid) : owner.why));
}

// With the rights of which user an image can be restored: the manifest's owner, if CRIU's files say
// the same. Root's programs need no owner there: some images of earlier versions have none.
std::optional<Credentials> owner_of_image(const ImageManifest &m, const Ownership &recorded,
                                          std::string &why) {
  if (!recorded.user) {
    why = recorded.why;
  } else if (!m.owner && !recorded.is_root()) {
    why = fmt::format("the image names no owner, and its processes belong to uid {}",
                      recorded.user->uid);
  } else if (m.owner && m.owner->uid != recorded.user->uid) {
    why = fmt::format("the image names uid {} as its owner, but its processes belong to uid {}",
                      m.owner->uid, recorded.user->uid);
  } else if (m.owner && !recorded.is_root() && !recorded.is(*m.owner)) {
    why = fmt::format("the image names an owner of uid {}, but its processes have other groups",
                      m.owner->uid);
  } else {
    return recorded.user;
  }
  return std::nullopt;
}

// The same uid is another user in each.
void check_namespace(const ImageManifest &m, Reasons &reasons) {
  if (m.of_namespace_root == is_namespace_root()) return;
  reasons.push_back(m.of_namespace_root
                        ? "the program belongs to root of a user namespace (a rootless container), "
                          "which is not root of this machine: restore it in such a container"
                        : "the program did not belong to root of a user namespace, as you are "
                          "(a rootless container): restore it outside of this container");
}

CriuRights rights_of_root(const ImageManifest &m, const RestoreRequest &request, Reasons &reasons) {
  CriuRights rights{.in_namespace = is_namespace_root()};
  check_root(kRootRestores, reasons);
  check_namespace(m, reasons);
  if (request.as_root) return rights;
  std::string why;
  std::optional<Credentials> owner = owner_of_image(m, request.recorded, why);
  if (!owner)
    reasons.push_back(
        fmt::format("only root's rights could restore it ({}), and CRIU would then open its files "
                    "by names that the program's users can change: add --as-root if you trust them",
                    why));
  if (owner) rights.user = identity_of(*owner);
  if (owner && owner->uid != 0) rights.way = Way::ForUser;
  return rights;
}

}  // namespace

Ownership ownership_of(const Target &target) {
  std::vector<ThreadIdentity> all;
  for (const Process &p : target.processes) {
    Result<std::vector<ThreadIdentity>> threads = identities_of(p.pid);
    if (!threads) return {std::nullopt, std::move(threads).error().what};
    std::ranges::move(*threads, std::back_inserter(all));
  }
  return ckpt::ownership_of(all);
}

std::optional<helper::Identity> user_served(const Target &target) {
  std::optional<Process> keeper = keeper_of_user(target);
  if (::geteuid() != 0 || !keeper) return std::nullopt;
  Ownership owner = ownership_of(target);
  return identity_of(owner.user ? *owner.user : keeper->credentials());
}

CriuRights rights_to_dump(const Target &target, Reasons &reasons) {
  CriuRights rights{.in_namespace = is_namespace_root()};
  Ownership owner = ownership_of(target);
  if (owner.user) rights.user = identity_of(*owner.user);
  if (::geteuid() == 0) {
    choose_for_root(target, owner, rights, reasons);
    check_root(kRootNeeds, reasons);
    check_seccomp(target, reasons);
    return rights;
  }
  rights.way = way_of_user(!target.own_pid_namespace, reasons);
  if (!owner.user)
    reasons.push_back(fmt::format(
        "a process of the program has another user, other groups or capabilities: {}. End it "
        "first, or start the whole program by root's ckpt-run and run this as root",
        owner.why));
  if (owner.user) check_user(*owner.user, "the program", reasons);
  return rights;
}

Result<> check_recorded_rights(const CriuRights &rights, const Ownership &recorded) {
  if (!rights.unprivileged() || recorded.is(rights.user)) return {};
  return fail_with_hint(
      fmt::format("the program got other rights in the middle of the checkpoint ({})",
                  recorded.user ? fmt::format("it belongs to uid {} and gid {} now",
                                              recorded.user->uid, recorded.user->gid)
                                : recorded.why),
      "run ckpt-dump again");
}

std::string why_as_root(const CriuRights &rights, const Ownership &owner) {
  if (rights.unprivileged() || owner.is_root()) return {};
  return fmt::format(
      "only root's ckpt-restore --as-root can restore it: root has started it, and {}",
      owner.user ? fmt::format("it belongs to uid {}", owner.user->uid) : owner.why);
}

CriuRights rights_to_restore(const ImageManifest &m, const RestoreRequest &request,
                             Reasons &reasons) {
  if (::geteuid() == 0) return rights_of_root(m, request, reasons);
  CriuRights rights;
  rights.way = way_of_user(!request.new_namespace, reasons);
  if (request.as_root) reasons.push_back("--as-root was given, and you are not root: leave it out");
  std::string why;
  std::optional<Credentials> owner = owner_of_image(m, request.recorded, why);
  if (!owner)
    reasons.push_back(fmt::format(
        "the image does not name you as the only user of the program: run this as root ({})", why));
  if (owner) rights.user = identity_of(*owner);
  if (owner) check_user(*owner, "the image's program", reasons);
  if (owner && owner->uid == ::geteuid()) check_groups(*owner, reasons);
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
  if (rights.way != Way::Own) return [] {};
  u64 kept = is_isolated() ? rights_in_isolation() : helper::criu_capabilities();
  return [kept] {
    if (!helper::pass_on_only(kept)) ::_exit(kNotExecuted);
  };
}

}  // namespace ckpt::tools

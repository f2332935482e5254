// SPDX-License-Identifier: Apache-2.0
#include "common/proc/identity.h"

#include <unistd.h>

#include <algorithm>

#include "common/proc/capabilities.h"
#include "common/proc/file.h"
#include "common/proc/status.h"

namespace ckpt {
namespace {

using UserNamespace = ThreadIdentity::UserNamespace;

bool thread_exists(pid_t process, pid_t thread) {
  return ::access(proc::path(process, thread, "").c_str(), F_OK) == 0;
}

// A process with more than one thread cannot enter another user namespace (setns(2), unshare(2)),
// so this is one for the whole process.
UserNamespace user_namespace_of(pid_t process) {
  u64 its = proc::namespace_inode(process, "user");
  if (its == 0) return UserNamespace::Unknown;
  return its == proc::namespace_inode(::getpid(), "user") ? UserNamespace::Ours
                                                          : UserNamespace::Other;
}

std::string name_of_thread(const ThreadIdentity &t) {
  return t.thread == t.process ? fmt::format("process {}", t.process)
                               : fmt::format("thread {} of process {}", t.thread, t.process);
}

std::string groups_text(const std::vector<gid_t> &groups) {
  std::string all;
  for (gid_t group : groups) all += fmt::format("{}{}", all.empty() ? "" : ", ", group);
  return all.empty() ? "no groups" : "the groups " + all;
}

std::vector<gid_t> sorted(std::vector<gid_t> groups) {
  std::ranges::sort(groups);
  return groups;
}

template <class Ids>
auto other_than(const Ids &ids, typename Ids::value_type wanted) {
  return std::ranges::find_if(ids, [wanted](auto id) { return id != wanted; });
}

std::string difference_of_namespace(const ThreadIdentity &t) {
  switch (t.user_namespace) {
    case UserNamespace::Ours: return {};
    case UserNamespace::Other:
      return fmt::format("{} is in another user namespace", name_of_thread(t));
    case UserNamespace::Unknown: break;
  }
  return fmt::format("the user namespace of {} cannot be read", name_of_thread(t));
}

}  // namespace

Result<std::vector<ThreadIdentity>> identities_of(pid_t process) {
  std::vector<ThreadIdentity> all;
  const UserNamespace user_namespace = user_namespace_of(process);
  for (pid_t thread : proc::threads_of(process)) {
    Result<proc::Status> s = proc::read_status(process, thread);
    if (!s && !thread_exists(process, thread)) continue;
    if (!s) return Failure(std::move(s).error());
    if (s->has_ended()) continue;
    all.push_back({.process = process,
                   .thread = thread,
                   .uids = s->uids,
                   .gids = s->gids,
                   .groups = std::move(s->groups),
                   .inheritable = s->inheritable,
                   .permitted = s->permitted,
                   .effective = s->effective,
                   .ambient = s->ambient,
                   .user_namespace = user_namespace});
  }
  return all;
}

std::string difference(const ThreadIdentity &t, const Credentials &user) {
  if (auto uid = other_than(t.uids, user.uid); uid != t.uids.end())
    return fmt::format("{} belongs to uid {}, not to uid {}", name_of_thread(t), *uid, user.uid);
  if (auto gid = other_than(t.gids, user.gid); gid != t.gids.end())
    return fmt::format("{} has gid {} instead of {}", name_of_thread(t), *gid, user.gid);
  if (sorted(t.groups) != sorted(user.groups))
    return fmt::format("{} has {} instead of {}", name_of_thread(t), groups_text(t.groups),
                       groups_text(user.groups));
  // There it has all capabilities, which say nothing.
  if (t.user_namespace == UserNamespace::Other) return difference_of_namespace(t);
  if (u64 all = t.inheritable | t.permitted | t.effective | t.ambient)
    return fmt::format("{} has capabilities ({})", name_of_thread(t), names_of_capabilities(all));
  if (t.securebits != 0)
    return fmt::format("{} has the securebits {:#x}", name_of_thread(t), t.securebits);
  return difference_of_namespace(t);
}

bool Ownership::is(const Credentials &other) const {
  return user && user->uid == other.uid && user->gid == other.gid &&
         sorted(user->groups) == sorted(other.groups);
}

// Root's programs may give up any of root's rights: who can change one of them is root.
Ownership ownership_of(std::span<const ThreadIdentity> threads) {
  if (threads.empty()) return {std::nullopt, "it names no thread that lives"};
  const ThreadIdentity &first = threads.front();
  Credentials user{first.uids[0], first.gids[0], first.groups};
  for (const ThreadIdentity &t : threads) {
    bool is_root = user.uid == 0 && other_than(t.uids, 0) == t.uids.end();
    std::string why = is_root ? difference_of_namespace(t) : difference(t, user);
    if (!why.empty()) return {std::nullopt, std::move(why)};
  }
  return {std::move(user), {}};
}

}  // namespace ckpt

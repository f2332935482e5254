// SPDX-License-Identifier: Apache-2.0
#include "tools/session/owners.h"

#include <set>

#include "common/proc/identity.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

bool is_below(const ProcessTable &table, pid_t pid, pid_t ancestor) {
  const Process *p = table.find(pid);
  while (p && p->pid != ancestor) p = table.find(p->parent);
  return p != nullptr;
}

// ckpt-helper's stem is not below the keeper (find_keeper_of_stem() in target.cc).
bool is_below_stem(const ProcessTable &table, const Target &target) {
  const Process *root = table.find(target.root);
  return target.helper_stem && root && root->parent == target.helper_stem;
}

Result<std::set<uid_t>> uids_of(const Process &p) {
  CKPT_TRY(std::vector<ThreadIdentity> threads, identities_of(p.pid));
  std::set<uid_t> all;
  for (const ThreadIdentity &t : threads) all.insert(t.uids.begin(), t.uids.end());
  return all;
}

Failure other_rights(const Process &p, const std::set<uid_t> &its, const Process &keeper,
                     uid_t user) {
  std::string uids;
  for (uid_t uid : its) uids += fmt::format("{}{}", uids.empty() ? "" : " and ", uid);
  return fail_with_hint(fmt::format("{} has the rights of uid {}, but {} those of uid {}",
                                    name_of(p), uids, name_of(keeper), user),
                        "end it first, or start the whole program by root's ckpt-run");
}

}  // namespace

Result<> check_owners(const ProcessTable &table, const Target &target) {
  const Process *keeper = table.find(target.keeper);
  if (!keeper || !(is_below(table, target.root, target.keeper) || is_below_stem(table, target)))
    return fail("process {} is not a program of process {}", target.root, target.keeper);
  if (keeper->has_only(0)) return {};
  uid_t user = keeper->credentials().uid;
  for (const Process &p : target.processes) {
    CKPT_TRY(std::set<uid_t> uids, uids_of(p));
    bool is_users = uids.empty() || (uids.size() == 1 && uids.contains(user));
    if (!is_users) return other_rights(p, uids, *keeper, user);
  }
  return {};
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/session/owners.h"

#include <set>

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

Failure other_rights(const Process &p, const Process &keeper) {
  auto text = [](const Process &q) {
    std::string all;
    for (uid_t uid : std::set(q.uids.begin(), q.uids.end()))
      all += fmt::format("{}{}", all.empty() ? "" : " and ", uid);
    return all;
  };
  return fail_with_hint(fmt::format("{} has the rights of uid {}, but {} those of uid {}",
                                    name_of(p), text(p), name_of(keeper), text(keeper)),
                        "end it first, or start the whole program by root's ckpt-run");
}

}  // namespace

Result<> check_owners(const ProcessTable &table, const Target &target) {
  const Process *keeper = table.find(target.keeper);
  if (!keeper || !(is_below(table, target.root, target.keeper) || is_below_stem(table, target)))
    return fail("process {} is not a program of process {}", target.root, target.keeper);
  if (keeper->has_only(0)) return {};
  uid_t user = keeper->credentials().uid;
  for (const Process &p : target.processes)
    if (p.state != 'Z' && !p.has_only(user)) return other_rights(p, *keeper);
  return {};
}

}  // namespace ckpt::tools

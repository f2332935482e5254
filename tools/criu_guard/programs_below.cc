// SPDX-License-Identifier: Apache-2.0
#include "tools/criu_guard/programs_below.h"

#include <algorithm>

#include "tools/dump/residue.h"
#include "tools/reasons.h"

namespace ckpt::tools {
namespace {

// A program that goes on without its keeper has no way back to its devices.
void check_keepers(const std::vector<Process> &tree, const std::vector<Target> &programs,
                   Reasons &reasons) {
  for (const Process &p : tree) {
    bool known = std::ranges::any_of(programs, [&](const Target &t) { return t.has_agent(p.pid); });
    if (!known && runs_agent(p.pid))
      reasons.push_back(fmt::format(
          "{} is dumped without its ckpt-run: name that process to CRIU, or one above it",
          name_of(p)));
  }
}

// CRIU dumps no IPC namespace but that of the first process ("nested ipc namespace").
void check_ipc(pid_t root, const Target &t, Reasons &reasons) {
  u64 of_tree = namespace_of(root, "ipc");
  for (const Process &p : t.processes)
    if (namespace_of(p.pid, "ipc") != of_tree) {
      reasons.push_back(fmt::format(
          "{} has an IPC namespace of its own: start the program with ckpt-run --share-ipc",
          name_of(p)));
      return;
    }
}

}  // namespace

bool has_programs_below(pid_t root) {
  return std::ranges::any_of(ProcessTable::read().tree(root), [](const Process &p) {
    return runs_agent(p.pid) || !session_socket_of(p.pid).empty();
  });
}

Result<std::vector<Target>> programs_below(pid_t root,
                                           const std::function<Result<>()> &check_cancelled) {
  std::vector<Process> tree = ProcessTable::read().tree(root);
  if (tree.empty()) return fail("there is no process {}", root);
  std::vector<Target> all;
  for (const Process &p : tree) {
    if (session_socket_of(p.pid).empty()) continue;
    CKPT_TRY(Target t, resolve_target(p.pid, check_cancelled));
    all.push_back(std::move(t));
  }
  Reasons reasons;
  check_keepers(tree, all, reasons);
  for (const Target &t : all) check_ipc(root, t, reasons);
  if (reasons.empty()) return all;
  return fail("CRIU cannot dump these processes:{}", as_list(reasons));
}

Result<> check_residue_below(pid_t root) {
  Reasons residue;
  for (const Process &p : ProcessTable::read().tree(root))
    if (runs_agent(p.pid)) check_residue(p.pid, residue);
  if (residue.empty()) return {};
  return fail_with_hint(
      "programs use devices that they did not use when they were suspended:" + as_list(residue),
      "try again");
}

}  // namespace ckpt::tools

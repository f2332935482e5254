// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/program.h"

namespace ckpt::manager {

const char *name_of(Phase phase) {
  switch (phase) {
    case Phase::Unassigned: return "unassigned";
    case Phase::Pending: return "pending";
    case Phase::Assigned: return "running";
    case Phase::Evicting: return "evicting";
    case Phase::Evicted: return "evicted";
    case Phase::Resuming: return "resuming";
  }
  return "?";
}

Contents Program::contents() const {
  if (auto *p = std::get_if<Evicting>(&state)) return p->contents;
  if (auto *p = std::get_if<Evicted>(&state)) return p->contents;
  if (auto *p = std::get_if<Resuming>(&state)) return p->contents;
  return {};
}

bool Program::unresponsive() const {
  auto *p = std::get_if<Evicting>(&state);
  return p != nullptr && p->unresponsive;
}

bool Program::suspended_by_tool() const {
  auto *p = std::get_if<Evicted>(&state);
  return p != nullptr && p->by_tool;
}

}  // namespace ckpt::manager

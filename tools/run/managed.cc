// SPDX-License-Identifier: Apache-2.0
#include "tools/run/managed.h"

#include <cstdlib>

#include "common/ipc/unix_socket.h"
#include "common/managed/messages.h"
#include "common/managed/socket.h"

namespace ckpt::tools {
namespace {

constexpr const char *kPriorityVariable = "CKPT_PRIORITY";

std::string manager_socket() {
  if (const char *set = std::getenv(managed::kSocketVariable); set != nullptr && *set) return set;
  return managed::usual_socket();
}

}  // namespace

void add_managed_options(CLI::App &app, ManagedOptions &o) {
  CLI::Option *managed =
      app.add_flag("--managed", o.managed,
                   "the node's Manager (ckptd) chooses the GPU and may move the program");
  app.add_flag("--unmanaged", o.unmanaged, "not so, although CKPTD_SOCKET is set")
      ->excludes(managed);
  app.add_option("--priority", o.priority, "for the Manager: more is more important (0)");
}

Result<> add_manager(const ManagedOptions &o, bool device_chosen, ProgramEnvironment &e) {
  const char *set = std::getenv(managed::kSocketVariable);
  bool by_default = set != nullptr && *set && !device_chosen && !o.unmanaged;
  if (o.managed && device_chosen)
    return fail_with_hint("--device and --managed cannot be had together",
                          "a managed program runs where the Manager puts it");
  if (!o.managed && !by_default) {
    e.without.emplace_back(managed::kSocketVariable);
    return {};
  }
  std::string socket = manager_socket();
  if (o.managed)
    if (Result<std::optional<UniqueFd>> there = connect_unix_at_once(socket); !there)
      return fail_with_hint(fmt::format("there is no Manager: {}", there.error().what),
                            "start ckptd, or name its socket by CKPTD_SOCKET");
  e.set.emplace_back(managed::kSocketVariable, socket);
  if (o.priority) e.set.emplace_back(kPriorityVariable, std::to_string(*o.priority));
  return {};
}

}  // namespace ckpt::tools

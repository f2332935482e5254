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

void add_managed_options(CommandLine &line, ManagedOptions &o) {
  Option managed =
      line.flag("--managed", o.managed,
                "let the node's Manager (ckptd) choose the GPU and move the program while it runs");
  line.flag("--unmanaged", o.unmanaged, "run without the Manager, although CKPTD_SOCKET is set")
      .excludes(managed);
  line.option("--priority=N", o.priority,
              "for the Manager: programs with a higher priority go first, and one below 0 is a "
              "guest, which leaves when another program needs memory")
      .default_is("0; -1 with --guest");
}

Result<> add_manager(const ManagedOptions &o, bool device_chosen, ProgramEnvironment &e) {
  const char *set = std::getenv(managed::kSocketVariable);
  bool by_default = set != nullptr && *set && !device_chosen && !o.unmanaged;
  if (o.managed && device_chosen)
    return fail_with_hint("--device cannot be combined with --managed",
                          "leave one of them out: the Manager chooses the device itself");
  if (!o.managed && !by_default) {
    e.without.emplace_back(managed::kSocketVariable);
    return {};
  }
  std::string socket = manager_socket();
  if (o.managed)
    if (Result<std::optional<UniqueFd>> connected = connect_unix_at_once(socket); !connected)
      return fail_with_hint(fmt::format("cannot connect to ckptd: {}", connected.error().what),
                            "start ckptd, or set CKPTD_SOCKET to its socket");
  e.set.emplace_back(managed::kSocketVariable, socket);
  if (o.priority) e.set.emplace_back(kPriorityVariable, std::to_string(*o.priority));
  return {};
}

}  // namespace ckpt::tools

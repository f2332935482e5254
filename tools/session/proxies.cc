// SPDX-License-Identifier: Apache-2.0
#include "tools/session/proxies.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/ipc/unix_socket.h"
#include "tools/device/remote.h"
#include "tools/proc/command.h"
#include "tools/session/proxy_environment.h"

namespace ckpt::tools {

Result<> Proxies::start(const Request &r) {
  // The program was started on CUDA devices of another node. Those chosen now may be of this node.
  bool calls = r.api == "cuda-server";
  bool memory = r.api == protocol::kGpuMemoryProxy;
  bool owner = r.api == protocol::kMemoryOwnerProxy;
  std::string api = calls || memory || owner ? "cuda" : r.api;
  DeviceChoice choice = r.device ? DeviceChoice{{api, split_at_commas(*r.device)}} : choice_;
  if (memory || owner) choice.clear();  // it knows all
  std::vector<std::string> command = proxy_command(api, choice);
  if (calls && !is_remote(choice)) command.push_back("--calls");
  if (memory) command.push_back("--memory");
  if (owner) command.push_back("--owner");
  if (command.empty())
    return fail_with_hint(fmt::format("no proxy for the API \"{}\" was found", api),
                          "the installation of ckpt is incomplete; install it again");
  CKPT_TRY(auto control, socket_pair());
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  u64 token = ++last_token_;
  command.insert(command.end(),
                 {"--serve", std::to_string(r.connection), "--control",
                  std::to_string(control.second.get()), "--token", std::to_string(token)});
  Spawn spec{.argv = std::move(command),
             .in = null.get(),
             .out = r.out,
             .err = r.err,
             .keep = {r.connection, control.second.get()},
             .own_group = true,
             .die_with_us = true};
  if (portable_) spec.argv.push_back("--portable");
  if (r.folder >= 0)
    spec.in_child = [folder = r.folder] {
      if (::fchdir(folder) != 0) { /* it stays in ours */
      }
    };
  if (r.environment >= 0) {
    CKPT_TRY(std::vector<std::string> entries, read_environment(r.environment));
    EnvironmentChanges changes = proxy_environment(entries, program_);
    spec.environment = std::move(changes.set);
    spec.without = std::move(changes.without);
  }
  CKPT_TRY(pid_t pid, spawn(spec));
  log::debug("proxy {} serves {} with token {}", pid, r.api, token);
  all_.push_back({pid, token, std::move(control.first)});
  return {};
}

Result<> Proxies::adopt(u64 token, int connection) {
  for (const Proxy &p : all_)
    if (p.token == token)
      return send_message(p.control.get(), static_cast<u16>(protocol::Type::Adopt), {},
                          std::span(&connection, 1));
  return fail("there is no parked proxy {}", token);
}

Result<> Proxies::drop(u64 token) {
  for (auto p = all_.begin(); p != all_.end(); ++p) {
    if (p->token != token) continue;
    ::kill(p->pid, SIGKILL);
    ::waitpid(p->pid, nullptr, 0);
    all_.erase(p);
    return {};
  }
  return fail("there is no parked proxy {}", token);
}

bool Proxies::reaped(pid_t pid) {
  return std::erase_if(all_, [pid](const Proxy &p) { return p.pid == pid; }) > 0;
}

bool Proxies::has(pid_t pid) const {
  return std::ranges::any_of(all_, [pid](const Proxy &p) { return p.pid == pid; });
}

// A parked proxy waits for a client at the other end, and sees the hang-up.
void Proxies::release_parked() {
  for (Proxy &p : all_) p.control.reset();
}

void Proxies::kill_all() {
  for (const Proxy &p : all_) ::kill(p.pid, SIGKILL);
  for (const Proxy &p : all_) ::waitpid(p.pid, nullptr, 0);
  all_.clear();
}

}  // namespace ckpt::tools

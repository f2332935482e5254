// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/returned.h"

#include <chrono>
#include <thread>

#include "agent/protocol.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "tools/agent_link/agent_client.h"
#include "tools/proc/process.h"
#include "tools/proc/sockets.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

// CUDA's memory is copied back meanwhile.
constexpr auto kReturnTimeout = 300s;

// The agent's socket once it listens; empty: the process has ended, or the wait was cancelled.
std::string wait_for_socket(pid_t pid, const Cancel &cancel) {
  for (auto end = Clock::now() + kReturnTimeout;
       Clock::now() < end && cancel.check() && runs_agent(pid);) {
    std::vector<std::string> sockets =
        listening_sockets(pid, std::string(protocol::kAgentSocketPrefix));
    if (!sockets.empty()) return sockets.front();
    std::this_thread::sleep_for(2ms);
  }
  return {};
}

// Empty: none, or the agent cannot say: it may be busy with a callback of the program.
std::string loss_of(pid_t pid, const std::string &socket) {
  Result<AgentClient> agent = AgentClient::connect(pid, socket);
  if (!agent || !agent->hello("ckpt-dump")) return {};
  return agent->loss();
}

}  // namespace

Result<> check_devices_returned(const Target &target, const Cancel &cancel) {
  for (pid_t pid : target.agent_pids) {
    std::string socket = wait_for_socket(pid, cancel);
    std::string why = socket.empty() ? "" : loss_of(pid, socket);
    if (!why.empty())
      return fail_with_hint(fmt::format("process {} has lost its devices: {}", pid, why),
                            "end the program and restore it with ckpt-restore");
  }
  return {};
}

}  // namespace ckpt::tools

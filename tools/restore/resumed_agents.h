// SPDX-License-Identifier: Apache-2.0
//
// The agents of a program that is to be resumed or moved, and whether devices suit them. Nothing
// here changes the program.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/agent_link/agent_client.h"
#include "tools/device/device.h"
#include "tools/reasons.h"
#include "tools/restore/resume.h"
#include "tools/session/target.h"

namespace ckpt::tools {

struct ResumedAgent {
  AgentClient agent;
  AgentClient::Welcome welcome;
  std::vector<std::pair<std::string, DeviceCheck>> checks;  // by API
};

// Of a program that uses a device; all are greeted. Without those of processes that end meanwhile,
// which need no devices.
Result<std::vector<ResumedAgent>> greeted_agents(const Target &target);
// Runs `f` for each agent, and forgets those of processes that end meanwhile, with a warning; not
// the last one. `done`: where it begins, and how far it has come.
Result<> for_living(std::vector<ResumedAgent> &all, size_t &done,
                    const std::function<Result<>(ResumedAgent &)> &f);
// A tool that was killed in the middle of a suspend or a resume leaves some agents running.
void leave_out_running(std::vector<ResumedAgent> &all);
std::set<std::string> apis_of(const std::vector<ResumedAgent> &all);
// A container with its own root folder may have other drivers, so there the agent chooses the
// devices itself.
Result<> check_container(const Target &target, const ResumeOptions &options);
// Root's tool looks for another user's devices as that user, as ckpt-restore does (become_owner()).
// That user may have other drivers, and their code must not run with root's rights.
Result<> look_as_owner(const Target &target);
// Asks whether the devices suit each agent. Of a program that runs, as of now.
Result<> check_devices_for(std::vector<ResumedAgent> &all, const ResumeOptions &options,
                           const DeviceChoice &choice);
// Why they do not; empty: they do.
Reasons reasons_against(const std::vector<ResumedAgent> &all, const DeviceChoice &choice);

}  // namespace ckpt::tools

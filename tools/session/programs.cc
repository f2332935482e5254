// SPDX-License-Identifier: Apache-2.0
#include "tools/session/programs.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "agent/protocol.h"
#include "common/base/clock.h"
#include "common/base/named_user.h"
#include "tools/agent_link/agent_client.h"
#include "tools/proc/process.h"
#include "tools/proc/process_root.h"
#include "tools/proc/sockets.h"
#include "tools/session/session_folder.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kPatience = 500ms;  // with one agent
// With all of them. Any number of processes may have an agent that does not answer.
constexpr Clock::duration kPatienceWithAll = 2s;

bool has_file(pid_t pid, const std::string &folder, std::string_view name) {
  Result<UniqueFd> fd = open_folder_of(pid, folder);
  return fd && ::faccessat(fd->get(), std::string(name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string command_of(pid_t pid) {
  std::string all;
  for (const std::string &word : arguments_of(pid)) all += (all.empty() ? "" : " ") + word;
  return all;
}

void add_device(std::vector<std::string> &all, const std::string &name) {
  if (std::ranges::find(all, name) == all.end()) all.push_back(name);
}

// The depth is that of the process that has given back least.
void note_suspended(AgentClient &agent, RunningProgram &p) {
  p.state = "suspended";
  bool at_memory = agent.depth() == protocol::Depth::Memory;
  if (p.depth.empty() || at_memory) p.depth = at_memory ? "memory" : "full";
}

// An agent may be busy, for example with a dump; then its devices stay unknown.
Result<> ask_agent(pid_t pid, const std::string &socket, RunningProgram &p) {
  CKPT_TRY(AgentClient agent,
           AgentClient::glance(pid, socket,
                               std::chrono::duration_cast<std::chrono::milliseconds>(kPatience)));
  CKPT_TRY(AgentClient::Welcome welcome, agent.hello("ckpt-ps"));
  if (welcome.state == protocol::State::Suspended) note_suspended(agent, p);
  Result<std::vector<std::string>> names = agent.devices();
  for (const std::string &name : names && !names->empty() ? *names : welcome.participants)
    add_device(p.devices, name);
  return names ? Result<>() : Failure(names.error());
}

// Until one does not answer. Takes the time that this costs from `patience`.
void ask_agents(pid_t pid, RunningProgram &p, Clock::duration &patience) {
  for (const std::string &socket :
       listening_sockets(pid, std::string(protocol::kAgentSocketPrefix))) {
    Clock::time_point begin = Clock::now();
    if (patience > 0s && ask_agent(pid, socket, p)) continue;
    patience -= Clock::now() - begin;
    return;
  }
}

void read_last_image(const std::string &folder, RunningProgram &p) {
  std::istringstream in(read_file_of(p.keeper, fmt::format("{}/{}", folder, kLastImageFile)));
  if (in >> p.last_image_time && in.get() == ' ') std::getline(in, p.last_image);
}

void read_program(const ProcessTable &table, const std::string &socket, RunningProgram &p,
                  Clock::duration &patience) {
  std::string folder = std::filesystem::path(socket).parent_path();
  std::string file = fmt::format("{}/{}", folder, kProgramFile);
  if (!has_file(p.keeper, folder, kProgramFile)) renew_session_files(p.keeper, socket);
  std::vector<pid_t> numbers = pids_in(read_file_of(p.keeper, file));
  const Process *root =
      numbers.empty() ? nullptr : program_of_keeper(table, p.keeper, numbers.front());
  if (!root) return;
  p.root = root->pid;
  p.root_ns_pid = root->ns_pid();
  p.command = command_of(root->pid);
  if (p.command.empty()) p.command = root->command;
  p.session_folder = session_folder_of(root->pid, p.keeper, socket);
  p.state = root->state == 'T' ? "stopped" : "running";
  if (has_file(p.keeper, folder, protocol::kDumpMarker)) p.state = "dumping";
  for (const Process &q : table.tree(root->pid)) {
    p.processes++;
    p.resident_bytes += q.resident_bytes;
    if (p.state == "running" || p.state == "suspended") ask_agents(q.pid, p, patience);
  }
}

}  // namespace

std::vector<RunningProgram> running_programs(std::optional<uid_t> of_user) {
  std::vector<RunningProgram> all;
  Clock::duration patience = kPatienceWithAll;
  ProcessTable table = ProcessTable::read();
  for (const Process &named : table.names()) {
    std::string socket = session_socket_of(named.pid);
    if (socket.empty()) continue;
    const Process &keeper = *table.find(named.pid);
    if (of_user && keeper.uid != *of_user) continue;
    RunningProgram p{.keeper = keeper.pid, .uid = keeper.uid, .user = user_name(keeper.uid)};
    p.state = "starting";
    p.seconds = seconds_since_start(keeper);
    p.command = command_of(keeper.pid);
    read_program(table, socket, p, patience);
    read_last_image(std::filesystem::path(socket).parent_path(), p);
    all.push_back(std::move(p));
  }
  return all;
}

std::string user_name(uid_t uid) {
  const passwd *entry = ::getpwuid(uid);
  return entry ? entry->pw_name : std::to_string(uid);
}

Result<std::optional<uid_t>> selected_user(const std::string &name) {
  if (name.empty() && ::geteuid() == 0) return std::nullopt;
  if (name.empty()) return ::geteuid();
  if (std::optional<uid_t> uid = named_user(name)) return uid;
  return fail_with_hint(fmt::format("there is no user {}", name), "getent passwd lists the users");
}

}  // namespace ckpt::tools

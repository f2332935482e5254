// SPDX-License-Identifier: Apache-2.0
#include "tools/session/target.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "agent/protocol.h"
#include "tools/proc/sockets.h"
#include "tools/session/folder.h"
#include "tools/session/tree.h"

namespace ckpt::tools {
namespace {

// A large program that is being restored takes its time to load its devices.
constexpr auto kProgramIsWholeWithin = std::chrono::seconds(60);
// So does one that CRIU is writing.
constexpr auto kAgentsAreBackWithin = std::chrono::seconds(60);

bool is_keeper_executable(pid_t pid) {
  std::string name = executable_name(pid);
  return name == "ckpt-run" || name == "ckpt-restore";
}

std::string session_socket_of(pid_t pid) {
  if (!is_keeper_executable(pid)) return {};
  for (const std::string &path : listening_sockets(pid, std::string(protocol::kSessionSocket)))
    return path;
  return {};
}

// Up the parents: the nearest one that listens on a session's socket.
Result<> find_keeper(const ProcessTable &table, pid_t pid, Target &t) {
  for (pid_t at = pid; at > 0;) {
    const Process *p = table.find(at);
    if (!p) break;
    t.session_socket = session_socket_of(at);
    t.keeper = at;
    if (!t.session_socket.empty()) return {};
    at = p->parent;
  }
  return fail_with_hint(fmt::format("process {} does not run under ckpt-run or ckpt-restore", pid),
                        "start the program with ckpt-run, then it can be checkpointed");
}

Result<pid_t> program_of(const Target &t) {
  // A program may print its first line before its keeper has written down its PID, and a restored
  // one runs a moment before it has its devices back.
  for (auto end = std::chrono::steady_clock::now() + kProgramIsWholeWithin;
       std::chrono::steady_clock::now() < end && read_process(t.keeper);) {
    std::ifstream in(std::filesystem::path(t.session_socket).parent_path() / kProgramFile);
    pid_t root = 0;
    if (in >> root) return root;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fail_with_hint(fmt::format("the program of {} is not there yet", t.keeper), "try again");
}

std::string namespace_of(const std::string &process, const char *name) {
  std::error_code ec;
  return std::filesystem::read_symlink("/proc/" + process + "/ns/" + name, ec).string();
}

// The keeper's earlier children, and all below them.
std::set<pid_t> strangers_of(const ProcessTable &table, const Target &t) {
  std::set<pid_t> all;
  std::ifstream in(std::filesystem::path(t.session_socket).parent_path() / kStrangersFile);
  for (pid_t pid; in >> pid;)
    for (const Process &p : table.tree(pid)) all.insert(p.pid);
  return all;
}

// Whatever hangs below the keeper, is no helper of ours and not in the tree.
void find_escaped(const ProcessTable &table, Target &t) {
  std::set<pid_t> strangers = strangers_of(table, t);
  for (const Process &p : table.tree(t.keeper)) {
    bool in_tree = std::any_of(t.processes.begin(), t.processes.end(),
                               [&](const Process &q) { return q.pid == p.pid; });
    const Process *parent = table.find(p.parent);
    bool below_helper =
        parent && parent->pid != t.keeper && executable_name(parent->pid) != "ckpt-restore";
    if (!in_tree && p.pid != t.keeper && !is_own_helper(p.pid) && !below_helper && p.state != 'Z' &&
        !strangers.contains(p.pid))
      t.escaped.push_back(p.pid);
  }
}

void find_processes(Target &t) {
  ProcessTable table = ProcessTable::read();
  t.processes = table.tree(t.root);
  t.escaped.clear();
  find_escaped(table, t);
}

// Returns the first process whose agent does not listen, or 0.
pid_t find_agents(Target &t) {
  t.agents.clear();
  t.agent_pids.clear();
  for (const Process &p : t.processes) {
    std::vector<std::string> sockets =
        listening_sockets(p.pid, std::string(protocol::kAgentSocketPrefix));
    if (sockets.empty() && runs_agent(p.pid)) return p.pid;
    if (sockets.empty()) continue;
    t.agents.push_back(sockets.front());
    t.agent_pids.push_back(p.pid);
  }
  return 0;
}

// An agent that does not listen is in another tool's hands or on its way back from there to its
// devices, as after --leave-running. Its process must not be taken for one that has none.
Result<> find_members(Target &t) {
  pid_t away = 0;
  for (auto end = std::chrono::steady_clock::now() + kAgentsAreBackWithin;
       std::chrono::steady_clock::now() < end;) {
    find_processes(t);
    if (t.processes.empty()) return fail("the program of {} has ended", t.keeper);
    away = find_agents(t);
    if (away == 0) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fail_with_hint(fmt::format("process {} is in the middle of another checkpoint", away),
                        "try again when that is over");
}

}  // namespace

bool Target::has_agent(pid_t pid) const {
  return std::find(agent_pids.begin(), agent_pids.end(), pid) != agent_pids.end();
}

// Never the first thread: a child that was forked from the agent's has its name and no agent.
bool runs_agent(pid_t pid) {
  std::vector<pid_t> threads = threads_of(pid);
  return std::any_of(threads.begin(), threads.end(), [pid](pid_t tid) {
    return tid != pid && thread_name(pid, tid) == protocol::kAgentThread;
  });
}

Result<Target> resolve_target(pid_t pid) {
  Target t;
  ProcessTable table = ProcessTable::read();
  if (!table.find(pid)) return fail("there is no process {}", pid);
  CKPT_CHECK(find_keeper(table, pid, t));
  CKPT_TRY(t.root, program_of(t));
  CKPT_CHECK(find_members(t));
  t.own_pid_namespace = namespace_of(std::to_string(t.root), "pid") != namespace_of("self", "pid");
  return t;
}

}  // namespace ckpt::tools

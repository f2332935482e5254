// SPDX-License-Identifier: Apache-2.0
#include "tools/session/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "agent/protocol.h"
#include "common/base/clock.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/status.h"
#include "helper/protocol.h"
#include "tools/proc/process_root.h"
#include "tools/proc/sockets.h"
#include "tools/session/owners.h"
#include "tools/session/process_tree.h"
#include "tools/session/programs.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

// Limits for a restore that is still loading devices, and for a dump that is under way.
constexpr std::chrono::seconds kRestoreTimeout{60};
constexpr std::chrono::seconds kOtherDumpTimeout{60};
// A child has its parent's sockets until its fork() handler runs. One of _Fork() keeps them.
constexpr std::chrono::seconds kForkTimeout{2};
constexpr std::chrono::milliseconds kPoll{5};

bool is_keeper_executable(pid_t pid) {
  std::string name = executable_name(pid);
  return name == "ckpt-run" || name == "ckpt-restore" || name == "ckpt-start";
}

std::string folder_of(const std::string &session_socket) {
  return std::filesystem::path(session_socket).parent_path().string() + "/";
}

// The PIDs of programs in the file of a session, which the keeper writes again if it was removed.
// `asked`: keepers that have been asked to.
std::vector<pid_t> programs_of(pid_t keeper, const std::string &socket, std::set<pid_t> &asked) {
  std::string file = folder_of(socket) + std::string(kProgramFile);
  std::vector<pid_t> pids = pids_in(read_file_of(keeper, file));
  if (!pids.empty() || !asked.insert(keeper).second) return pids;
  renew_session_files(keeper, socket);
  return pids_in(read_file_of(keeper, file));
}

// A program that ckpt-helper has restored is not a descendant of its keeper, but of a stem. Its
// keeper is the one of the same user with a session that names the stem's child as its program.
bool find_keeper_of_stem(const ProcessTable &table, pid_t stem, pid_t root, Target &t,
                         std::set<pid_t> &asked) {
  Result<proc::Status> program = proc::read_status(root);
  for (const Process &p : table.names()) {
    std::string socket = session_socket_of(p.pid);
    Result<proc::Status> keeper = proc::read_status(p.pid);
    if (socket.empty() || !keeper || !program || keeper->uids != program->uids) continue;
    std::vector<pid_t> programs = programs_of(p.pid, socket, asked);
    if (std::ranges::find(programs, root) == programs.end()) continue;
    t.session_socket = socket;
    t.keeper = p.pid;
    t.helper_stem = stem;
    return true;
  }
  return false;
}

// The keeper is the nearest ancestor that listens on a session's socket. Returns false if there is
// none; `starting` is then an ancestor that may become a keeper, or 0.
bool find_keeper(const ProcessTable &table, pid_t pid, Target &t, pid_t &starting,
                 std::set<pid_t> &asked) {
  starting = 0;
  for (pid_t at = pid, below = 0; at > 0; below = std::exchange(at, table.find(at)->parent)) {
    const Process *p = table.find(at);
    if (!p) break;
    if (p->command == helper::kStemName && below) {
      starting = at;
      return find_keeper_of_stem(table, at, below, t, asked);
    }
    t.session_socket = session_socket_of(at);
    t.keeper = at;
    if (!t.session_socket.empty()) return true;
    if (is_keeper_executable(at) && p->state != 'Z') starting = at;
  }
  return false;
}

// Root's restore for a user (Way::ForUser). Its keeper runs as the user, but ran as root before, so
// the kernel shows its open files only to root (PR_GET_DUMPABLE in prctl(2)).
bool restored_by_root(const ProcessTable &table, pid_t stem) {
  const Process *p = table.find(stem);
  if (!p || p->command != helper::kStemName || ::geteuid() == 0) return false;
  std::vector<std::string> arguments = arguments_of(p->parent);
  return arguments.size() > 1 && arguments[1] == "--helper";
}

using Check = std::function<Result<>()>;

Result<> sleep_unless_cancelled(const Check &check_cancelled) {
  std::this_thread::sleep_for(kPoll);
  return check_cancelled ? check_cancelled() : Result<>();
}

bool has_ended(const Process &p) { return p.state == 'Z' && !only_main_thread_has_ended(p); }

// False if an ancestor of the process has ended since the table was read. Its keeper may be among
// those, and the process itself: all of a program ends at once when it is dumped.
bool still_has_ancestors(const ProcessTable &table, pid_t pid) {
  for (const Process *p = table.find(pid); p; p = table.find(p->parent)) {
    Result<Process> now = read_process(p->pid);
    if (!now || now->start_ticks != p->start_ticks || now->parent != p->parent) return false;
    // An ancestor remains 'Z', and keeps its children, if only its main thread has ended.
    if (now->ending && (p->pid == pid || now->state != 'Z')) return false;
  }
  return true;
}

Failure without_keeper(const Process &p) {
  if (::geteuid() != 0 && p.uid != ::geteuid())
    return fail_with_hint(fmt::format("process {} belongs to {}", p.pid, user_name(p.uid)),
                          "run this as that user, or as root");
  if (!environment_of(p.pid, protocol::kSessionVariable).empty())
    return fail_with_hint(
        fmt::format("process {} was started under ckpt-run or ckpt-restore, which has ended",
                    p.pid),
        "it cannot be checkpointed any more; start the program again with ckpt-run");
  return fail_with_hint(
      fmt::format("process {} does not run under ckpt-run or ckpt-restore", p.pid),
      "only programs that were started with ckpt-run or ckpt-restore can be checkpointed");
}

// ckpt-run opens its session a moment after it was started, and closes it a moment before it ends.
Result<> wait_for_keeper(pid_t pid, Target &t, const Check &check_cancelled) {
  if (!read_process(pid)) return fail("there is no process {}", pid);
  std::set<pid_t> asked;
  for (auto end = Clock::now() + kRestoreTimeout; Clock::now() < end;) {
    ProcessTable table = ProcessTable::read();
    const Process *p = table.find(pid);
    if (!p || has_ended(*p)) return fail("process {} has ended", pid);
    pid_t starting = 0;
    if (find_keeper(table, pid, t, starting, asked)) return {};
    if (starting == 0 && still_has_ancestors(table, pid)) return without_keeper(*p);
    if (restored_by_root(table, starting))
      return fail_with_hint(fmt::format("process {} was restored by root", pid),
                            "run this as root");
    CKPT_CHECK(sleep_unless_cancelled(check_cancelled));
  }
  return fail_with_hint(fmt::format("the program of process {} is still being started", pid),
                        "try again when it runs");
}

Failure program_has_ended(const Target &t) {
  return fail("the program of process {} has ended", t.keeper);
}

std::string session_file(const Target &t, std::string_view name) {
  std::string folder = std::filesystem::path(t.session_socket).parent_path();
  return read_file_of(t.keeper, fmt::format("{}/{}", folder, name));
}

void renew_missing_files(const Target &t) {
  Result<UniqueFd> folder =
      open_folder_of(t.keeper, std::filesystem::path(t.session_socket).parent_path());
  auto is_missing = [&](std::string_view name) {
    return ::faccessat(folder->get(), std::string(name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0;
  };
  if (folder && (is_missing(kProgramFile) || is_missing(kForeignChildrenFile)))
    renew_session_files(t.keeper, t.session_socket);
}

Result<> find_program(Target &t, const Check &check_cancelled) {
  // The keeper writes the PID shortly after the program has started, and after a restore only once
  // the program has its devices.
  for (auto end = Clock::now() + kRestoreTimeout; Clock::now() < end;) {
    ProcessTable table = ProcessTable::read();
    for (pid_t number : pids_in(session_file(t, kProgramFile)))
      if (const Process *root = program_of_keeper(table, t.keeper, number)) {
        t.root = root->pid;
        if (!table.find_below(t.keeper, number)) t.helper_stem = root->parent;
        return {};
      }
    if (session_socket_of(t.keeper).empty()) return program_has_ended(t);
    CKPT_CHECK(sleep_unless_cancelled(check_cancelled));
  }
  return fail_with_hint(
      fmt::format("the program of process {} is still being started or restored", t.keeper),
      "try again when it runs");
}

// The keeper's foreign children and all their descendants.
std::set<pid_t> foreign_children_of(const ProcessTable &table, const Target &t) {
  std::set<pid_t> all;
  for (pid_t number : pids_in(session_file(t, kForeignChildrenFile)))
    if (const Process *child = table.find_below(t.keeper, number))
      for (const Process &p : table.tree(child->pid)) all.insert(p.pid);
  return all;
}

// Descendants of the keeper that are neither helpers of ckpt nor in the program's tree.
void find_escaped(const ProcessTable &table, Target &t) {
  std::set<pid_t> foreign = foreign_children_of(table, t);
  std::vector<Process> below = table.tree(t.keeper);
  if (t.helper_stem)
    for (Process &p : table.tree(t.helper_stem)) below.push_back(std::move(p));
  for (const Process &p : below) {
    bool in_tree = std::any_of(t.processes.begin(), t.processes.end(),
                               [&](const Process &q) { return q.pid == p.pid; });
    const Process *parent = table.find(p.parent);
    bool below_helper = parent && parent->pid != t.keeper && parent->pid != t.helper_stem &&
                        !runs_stems(parent->pid);
    if (!in_tree && p.pid != t.keeper && p.pid != t.helper_stem && !is_own_helper(p.pid) &&
        !below_helper && p.state != 'Z' && !foreign.contains(p.pid))
      t.escaped.push_back(p.pid);
  }
}

void find_processes(const ProcessTable &table, Target &t) {
  t.processes = table.tree(t.root);
  t.escaped.clear();
  find_escaped(table, t);
}

std::vector<std::string> agent_sockets(pid_t pid) {
  return listening_sockets(pid, std::string(protocol::kAgentSocketPrefix));
}

// Returns the first process with an agent that does not listen, or with `expect_handlers`, with
// nothing but another one's socket; 0: there is none.
pid_t find_agents(Target &t, bool expect_handlers) {
  t.agents.clear();
  t.agent_pids.clear();
  for (const Process &p : t.processes) {
    std::vector<std::string> sockets = agent_sockets(p.pid);
    bool runs = runs_agent(p.pid);
    if (sockets.empty() && runs) return p.pid;
    if (sockets.empty()) continue;
    auto own = std::ranges::find_if(sockets, [&p](const auto &s) { return has_made(p, s); });
    if (expect_handlers && !runs && own == sockets.end()) return p.pid;
    t.agents.push_back(own == sockets.end() ? sockets.front() : *own);
    t.agent_pids.push_back(p.pid);
  }
  return 0;
}

// An agent that does not listen takes part in another checkpoint, or is not attached again after
// one (as with --leave-running). Its process must not be treated as one without an agent, so wait.
Result<> find_members(Target &t, const Check &check_cancelled) {
  pid_t busy = 0;
  auto begin = Clock::now();
  for (auto end = begin + kOtherDumpTimeout; Clock::now() < end;) {
    ProcessTable table = ProcessTable::read();
    find_processes(table, t);
    if (!table.find(t.keeper) || t.processes.empty() || has_ended(t.processes.front()))
      return program_has_ended(t);
    CKPT_CHECK(check_owners(table, t));
    busy = find_agents(t, Clock::now() < begin + kForkTimeout);
    if (busy == 0) return {};
    CKPT_CHECK(sleep_unless_cancelled(check_cancelled));
  }
  return fail_with_hint(fmt::format("process {} is in the middle of another checkpoint", busy),
                        "try again when that checkpoint has ended");
}

}  // namespace

std::string session_socket_of(pid_t pid) {
  if (!is_keeper_executable(pid)) return {};
  for (const std::string &path : listening_sockets(pid, std::string(protocol::kSessionSocket)))
    return path;
  return {};
}

bool Target::has_agent(pid_t pid) const {
  return std::find(agent_pids.begin(), agent_pids.end(), pid) != agent_pids.end();
}

std::string Target::agent_socket(pid_t pid) const {
  for (size_t i = 0; i < agent_pids.size(); i++)
    if (agent_pids[i] == pid) return agents[i];
  return {};
}

u64 Target::smallest_file_size_limit() const {
  u64 smallest = ~u64{0};
  for (const Process &p : processes) smallest = std::min(smallest, file_size_limit_of(p.pid));
  return smallest;
}

void renew_session_files(pid_t keeper, const std::string &session_socket) {
  constexpr std::chrono::milliseconds kPatience{500};
  Result<std::optional<UniqueFd>> fd = connect_unix_at_once_of(keeper, session_socket);
  if (!fd || !*fd) return;
  int socket = (*fd)->get();
  (void)set_receive_timeout(socket, kPatience);
  if (send_message(socket, static_cast<u16>(protocol::Type::FilesWanted),
                   Writer().put(protocol::kVersion).bytes()))
    (void)receive_message(socket);
}

const Process *program_of_keeper(const ProcessTable &table, pid_t keeper, pid_t number) {
  if (const Process *below = table.find_below(keeper, number)) return below;
  const Process *p = table.find(number);
  const Process *stem = p ? table.find(p->parent) : nullptr;
  if (!stem || stem->command != helper::kStemName) return nullptr;
  Result<proc::Status> its = proc::read_status(p->pid), keepers = proc::read_status(keeper);
  return its && keepers && its->uids == keepers->uids ? p : nullptr;
}

// The main thread does not count: a child that was forked from the agent's thread inherits the
// thread's name, but has no agent.
bool runs_agent(pid_t pid) {
  std::vector<pid_t> threads = threads_of(pid);
  return std::any_of(threads.begin(), threads.end(), [pid](pid_t tid) {
    return tid != pid && thread_name(pid, tid) == protocol::kAgentThread;
  });
}

bool has_made(const Process &process, const std::string &agent_socket) {
  std::string own = fmt::format("/{}{}-", protocol::kAgentSocketPrefix, process.ns_pid());
  return agent_socket.find(own) != agent_socket.npos;
}

pid_t new_agent(const Target &t) {
  for (const Process &p : ProcessTable::read().tree(t.root))
    if (!t.has_agent(p.pid) && (runs_agent(p.pid) || !agent_sockets(p.pid).empty())) return p.pid;
  return 0;
}

bool has_changed(const Target &t) {
  auto living = [](const std::vector<Process> &processes) {
    std::set<pid_t> pids;
    for (const Process &p : processes)
      if (p.state != 'Z') pids.insert(p.pid);
    return pids;
  };
  return new_agent(t) != 0 || living(ProcessTable::read().tree(t.root)) != living(t.processes);
}

// If no descriptor is left, files of /proc and of the session's folder would seem to be missing.
Result<> check_free_descriptors() {
  constexpr int kNeeded = 8;
  UniqueFd opened[kNeeded];
  for (UniqueFd &fd : opened)
    if (fd.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); !fd)
      return fail_errno("cannot open {} files", kNeeded);
  return {};
}

pid_t viewer_of(const Process &root) {
  bool same_mounts = namespace_of(root.parent, "mnt") == namespace_of(root.pid, "mnt");
  return same_mounts ? root.parent : root.pid;
}

Result<Target> resolve_target(pid_t pid, const Check &check_cancelled) {
  Target t;
  CKPT_CHECK(check_free_descriptors());
  CKPT_CHECK(wait_for_keeper(pid, t, check_cancelled));
  renew_missing_files(t);
  CKPT_CHECK(find_program(t, check_cancelled));
  CKPT_TRY(t.root_handle, ProcessHandle::open(t.root));
  CKPT_CHECK(find_members(t, check_cancelled));
  t.own_pid_namespace = namespace_of(t.root, "pid") != namespace_of(::getpid(), "pid");
  t.viewer = viewer_of(t.processes.front());
  t.files = prefix_of_files(t.viewer);
  return t;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/process.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/printable.h"
#include "common/proc/file.h"
#include "common/proc/limits.h"
#include "common/proc/maps.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"

namespace ckpt::tools {
namespace {

Result<Process> read_stat(pid_t pid) {
  Result<proc::Stat> s = proc::read_stat(pid);
  if (!s) return fail("there is no process {}", pid);
  Process p;
  p.pid = pid;
  p.parent = s->parent;
  p.group = s->group;
  p.session = s->session;
  p.terminal = s->terminal;
  p.state = s->state;
  p.ending = s->ending;
  p.command = std::move(s->command);
  p.start_ticks = s->start_ticks;
  return p;
}

// A process that has ended keeps what was known of it.
void read_status(Process &p) {
  Result<proc::Status> s = proc::read_status(p.pid);
  if (!s) return;
  p.tracer = s->tracer;
  p.uid = s->uids[0];
  p.uids.assign(s->uids.begin(), s->uids.end());
  p.gids.assign(s->gids.begin(), s->gids.end());
  p.groups = std::move(s->groups);
  p.ns_pids = std::move(s->pids);
  p.ns_groups = std::move(s->groups_of_processes);
  p.ns_sessions = std::move(s->sessions);
  p.pending_signals = s->pending_signals;
  p.resident_bytes = s->resident_bytes;
}

}  // namespace

bool Process::has_only(uid_t uid) const {
  return !uids.empty() && std::ranges::all_of(uids, [uid](uid_t u) { return u == uid; });
}

Credentials Process::credentials() const {
  constexpr u32 kNobody = 65534;
  return {uids.empty() ? kNobody : uids.front(), gids.empty() ? kNobody : gids.front(), groups};
}

std::set<pid_t> stopped_in(const std::vector<Process> &processes) {
  std::set<pid_t> stopped;
  for (const Process &p : processes)
    if (p.state == 'T') stopped.insert(p.pid);
  return stopped;
}

Result<Process> read_process(pid_t pid) {
  CKPT_TRY(Process p, read_stat(pid));
  read_status(p);
  return p;
}

std::string executable_of(pid_t pid) { return proc::link(pid, "exe"); }

std::string executable_name(pid_t pid) {
  std::string path = executable_of(pid);
  // The file was removed or replaced since.
  if (path.ends_with(proc::kUnlinked)) path.resize(path.size() - proc::kUnlinked.size());
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> arguments_of(pid_t pid) { return proc::parts(pid, "cmdline"); }

std::string working_folder_of(pid_t pid) { return proc::link(pid, "cwd"); }

std::string environment_of(pid_t pid, std::string_view name) {
  for (const std::string &entry : proc::parts(pid, "environ"))
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return {};
}

u64 file_size_limit_of(pid_t pid) {
  Result<proc::Limits> limits = proc::limits_of(pid);
  return limits ? (*limits)[RLIMIT_FSIZE].rlim_cur : RLIM_INFINITY;
}

double seconds_since_start(const Process &p) {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  double started = static_cast<double>(p.start_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(
      0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started);
}

std::string name_of(const Process &p) {
  return fmt::format("process {} ({})", p.pid, printable(p.command));
}

u64 namespace_of(pid_t pid, const char *name) { return proc::namespace_inode(pid, name); }

std::vector<pid_t> threads_of(pid_t pid) { return proc::threads_of(pid); }

bool all_threads_have_ended(pid_t pid) {
  return std::ranges::all_of(threads_of(pid), [pid](pid_t tid) {
    Result<proc::Stat> t = proc::read_stat(pid, tid);
    return !t || t->has_ended();
  });
}

bool only_main_thread_has_ended(const Process &p) {
  if (p.state != 'Z') return false;
  return std::ranges::any_of(threads_of(p.pid), [&p](pid_t tid) {
    Result<proc::Stat> t = proc::read_stat(p.pid, tid);
    return t && !t->ending;
  });
}

std::string thread_name(pid_t pid, pid_t tid) {
  std::string name = proc::text(pid, tid, "comm");
  return name.substr(0, name.find('\n'));
}

std::vector<ThreadIds> thread_ids_of(pid_t pid) {
  std::vector<ThreadIds> v;
  for (pid_t tid : threads_of(pid)) {
    Result<proc::Status> t = proc::read_status(pid, tid);
    v.push_back({tid, t ? t->pid_inside() : tid});
  }
  return v;
}

bool session_is_outside() { return ::getsid(0) == 0; }

ProcessTable ProcessTable::read() {
  ProcessTable t;
  for (pid_t pid : proc::processes()) {
    Result<Process> p = read_stat(pid);
    if (!p) continue;
    t.children_[p->parent].push_back(pid);
    t.all_.emplace(pid, Entry{std::move(*p)});
  }
  return t;
}

const Process *ProcessTable::find(pid_t pid) const {
  auto it = all_.find(pid);
  if (it == all_.end()) return nullptr;
  Entry &e = it->second;
  if (!std::exchange(e.complete, true)) read_status(e.process);
  return &e.process;
}

std::vector<pid_t> ProcessTable::children(pid_t parent) const {
  auto it = children_.find(parent);
  return it == children_.end() ? std::vector<pid_t>() : it->second;
}

// A descendant lives in the namespace of `ancestor` or in one below it, so that its own list of
// PIDs (NSpid in proc_pid_status(5)) begins with as many namespaces.
const Process *ProcessTable::find_below(pid_t ancestor, pid_t number) const {
  const Process *above = find(ancestor);
  size_t depth = above ? std::max<size_t>(above->ns_pids.size(), 1) : 0;
  for (const Process &p : tree(ancestor))
    if (p.pid != ancestor && p.ns_pids.size() >= depth && p.ns_pids[depth - 1] == number)
      return find(p.pid);
  return nullptr;
}

std::vector<Process> ProcessTable::names() const {
  std::vector<Process> v;
  for (const auto &[pid, e] : all_) {
    Process &p = v.emplace_back();
    p.pid = pid, p.command = e.process.command;
  }
  return v;
}

std::vector<Process> ProcessTable::tree(pid_t root) const {
  std::vector<Process> v;
  if (const Process *p = find(root)) v.push_back(*p);
  for (size_t i = 0; i < v.size(); i++)
    for (pid_t child : children(v[i].pid)) v.push_back(*find(child));
  return v;
}

}  // namespace ckpt::tools

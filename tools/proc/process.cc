// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/process.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <sstream>
#include <utility>

#include "common/base/file_text.h"
#include "common/base/printable.h"
#include "common/proc/status.h"

namespace ckpt::tools {
namespace {

std::string slurp(const std::string &path) { return file_text(path).value_or(""); }

std::string link_target(const std::string &path) {
  char buf[PATH_MAX];
  ssize_t n = ::readlink(path.c_str(), buf, sizeof buf);
  return n < 0 ? std::string() : std::string(buf, static_cast<size_t>(n));
}

std::vector<std::string> split_at_zero(const std::string &s) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < s.size();) {
    size_t end = std::min(s.find('\0', at), s.size());
    parts.push_back(s.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// The command in /proc/PID/stat may contain blanks and brackets, so the fields follow the last ')'.
bool parse_stat(const std::string &stat, Process &p) {
  size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  p.command = stat.substr(open + 1, close - open - 1);
  std::istringstream in(stat.substr(close + 1));
  in >> p.state >> p.parent >> p.group >> p.session >> p.terminal;
  if (in.fail()) return false;
  // proc_pid_stat(5): tpgid, flags, and 12 more before the start time.
  constexpr u64 kExiting = 4;  // PF_EXITING (include/linux/sched.h)
  constexpr int kSkipped = 12;
  std::string skipped;
  u64 flags = 0;
  in >> skipped >> flags;
  p.ending = flags & kExiting;
  for (int i = 0; i < kSkipped; i++) in >> skipped;
  in >> p.start_ticks;
  return true;
}

Result<Process> read_stat(pid_t pid) {
  Process p;
  p.pid = pid;
  if (!parse_stat(slurp(fmt::format("/proc/{}/stat", pid)), p))
    return fail("there is no process {}", pid);
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

u64 status_field(pid_t pid, std::string_view name) {
  std::istringstream in(slurp(fmt::format("/proc/{}/status", pid)));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':')
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  return 0;
}

std::string executable_of(pid_t pid) { return link_target(fmt::format("/proc/{}/exe", pid)); }

std::string executable_name(pid_t pid) {
  std::string path = executable_of(pid);
  constexpr std::string_view kReplaced = " (deleted)";  // the file was removed or replaced since
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> arguments_of(pid_t pid) {
  return split_at_zero(slurp(fmt::format("/proc/{}/cmdline", pid)));
}

std::string working_folder_of(pid_t pid) { return link_target(fmt::format("/proc/{}/cwd", pid)); }

std::string environment_of(pid_t pid, std::string_view name) {
  for (const std::string &entry : split_at_zero(slurp(fmt::format("/proc/{}/environ", pid))))
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return {};
}

u64 file_size_limit_of(pid_t pid) {
  constexpr std::string_view kName = "Max file size";
  std::istringstream in(slurp(fmt::format("/proc/{}/limits", pid)));
  for (std::string line; std::getline(in, line);)
    if (u64 limit = 0; line.starts_with(kName))
      return std::istringstream(line.substr(kName.size())) >> limit ? limit : ~u64{0};
  return ~u64{0};
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
  std::vector<pid_t> threads = threads_of(pid);
  return std::ranges::all_of(threads, [pid](pid_t tid) {
    Process t;
    return !parse_stat(slurp(fmt::format("/proc/{}/task/{}/stat", pid, tid)), t) ||
           t.state == 'Z' || t.state == 'X';
  });
}

bool only_main_thread_has_ended(const Process &p) {
  if (p.state != 'Z') return false;
  std::vector<pid_t> threads = threads_of(p.pid);
  return std::ranges::any_of(threads, [&p](pid_t tid) {
    Process t;
    return parse_stat(slurp(fmt::format("/proc/{}/task/{}/stat", p.pid, tid)), t) && !t.ending;
  });
}

std::string thread_name(pid_t pid, pid_t tid) {
  std::string name = slurp(fmt::format("/proc/{}/task/{}/comm", pid, tid));
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

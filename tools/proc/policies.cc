// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/policies.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/proc/file.h"
#include "common/proc/remote_call.h"
#include "common/proc/status.h"
#include "tools/proc/affinity.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

constexpr u64 kPage = 4096;
constexpr int kSetMemoryMerge = 67;  // PR_SET_MEMORY_MERGE, Linux 6.4

// The kernel makes no more lines of a table than are asked for.
std::string first_bytes(pid_t process, std::string_view name) {
  char text[128];
  Result<UniqueFd> fd = proc::open(process, name, O_RDONLY);
  ssize_t n = fd ? ::read(fd->get(), text, sizeof text) : -1;
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

std::optional<i64> number_in(pid_t process, std::string_view name, int base) {
  std::string text = first_bytes(process, name);
  return text.empty() ? std::nullopt : std::optional<i64>(leading_number(text, i64{0}, base));
}

struct Mode {
  std::string_view name;
  int number;
};
// As the kernel writes them (mm/mempolicy.c, policy_modes).
constexpr std::array kModes{Mode{"default", MPOL_DEFAULT},
                            Mode{"prefer (many)", MPOL_PREFERRED_MANY},
                            Mode{"prefer", MPOL_PREFERRED},
                            Mode{"bind", MPOL_BIND},
                            Mode{"interleave", MPOL_INTERLEAVE},
                            Mode{"weighted interleave", 6},
                            Mode{"local", MPOL_LOCAL}};
constexpr std::array kFlags{Mode{"=static", MPOL_F_STATIC_NODES},
                            Mode{"=relative", MPOL_F_RELATIVE_NODES},
                            Mode{"=balancing", MPOL_F_NUMA_BALANCING}};

// The policy in "55f0e961e000 weighted interleave:0-1 file=/usr/bin/head mapped=2 …".
std::string policy_in(std::string_view line) {
  size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return {};
  line.remove_prefix(blank + 1);
  for (const Mode &m : kModes)
    if (line.starts_with(m.name)) {
      size_t end = line.find_first_of(" \n", m.name.size());
      return std::string(line.substr(0, end));
    }
  return {};
}

constexpr u64 kMostNodes = 1024;  // CONFIG_NODES_SHIFT is at most 10

struct Policy {
  int mode = MPOL_DEFAULT;
  std::array<u64, kMostNodes / 64> nodes{};
  bool has_nodes = false;
};

std::optional<Policy> parse_policy(std::string_view text) {
  Policy p;
  size_t colon = text.find(':');
  std::string_view head = text.substr(0, colon);
  bool known = false;
  for (const Mode &m : kModes) {
    if (known || !head.starts_with(m.name)) continue;
    known = true;
    p.mode = m.number;
    head.remove_prefix(m.name.size());
  }
  for (const Mode &f : kFlags)
    if (head == f.name) {
      p.mode |= f.number;
      head = {};
    }
  if (!known || !head.empty()) return std::nullopt;
  if (colon == std::string_view::npos) return p;
  std::optional<Affinity> nodes = Affinity::parse(text.substr(colon + 1));
  if (!nodes) return std::nullopt;
  p.has_nodes = true;
  for (int n : nodes->numbers())
    if (static_cast<u64>(n) < kMostNodes) p.nodes[static_cast<size_t>(n) / 64] |= u64{1} << n % 64;
  return p;
}

Result<> check(const Result<i64> &made, const std::string &what) {
  if (!made) return fail("{}: {}", what, made.error().what);
  if (*made >= 0) return {};
  errno = static_cast<int>(-*made);
  return fail_errno("{}", what);
}

// A call with a policy: `before` are the arguments before the mode.
Result<> set_policy(const proc::RemoteCalls &calls, long number, const std::vector<u64> &before,
                    const std::string &text) {
  std::string what = fmt::format("memory policy {}", text);
  std::optional<Policy> p = parse_policy(text);
  if (!p) return fail("{}: unknown", what);
  u64 at = 0;
  if (p->has_nodes) {
    CKPT_TRY(at, calls.put(view(p->nodes.data(), sizeof p->nodes)));
  }
  proc::RemoteCalls::Arguments a{};
  size_t i = 0;
  for (u64 v : before) a[i++] = v;
  a[i++] = static_cast<u64>(p->mode);
  a[i++] = at;
  a[i] = at ? kMostNodes + 1 : 0;
  return check(calls.call(number, a), what);
}

bool needs_remote_calls(const ThreadPolicies &p) { return p.timer_slack || !p.memory.empty(); }

Result<> apply_from_inside(const ThreadPolicies &p, pid_t process, pid_t thread) {
  CKPT_TRY(proc::RemoteCalls calls, proc::RemoteCalls::in(process, thread));
  if (p.timer_slack)
    CKPT_CHECK(check(calls.call(SYS_prctl, {PR_SET_TIMERSLACK, static_cast<u64>(*p.timer_slack)}),
                     "timer slack"));
  return p.memory.empty() ? Result<>() : set_policy(calls, SYS_set_mempolicy, {}, p.memory);
}

bool needs_remote_calls(const ProcessPolicies &p) {
  return p.merge_pages || p.lock_future || !p.ranges.empty();
}

std::optional<i64> negative_nice(pid_t thread) {
  errno = 0;
  int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
  return errno == 0 && nice < 0 ? std::optional<i64>(nice) : std::nullopt;
}

std::optional<RealTime> real_time_of(pid_t thread) {
  int policy = ::sched_getscheduler(thread) & ~SCHED_RESET_ON_FORK;
  sched_param p{};
  bool real_time = policy == SCHED_FIFO || policy == SCHED_RR;
  if (!real_time || ::sched_getparam(thread, &p) != 0) return std::nullopt;
  return RealTime{policy, p.sched_priority};
}

Result<> set_nice(i64 nice, pid_t thread) {
  int value = static_cast<int>(nice);
  if (negative_nice(thread).value_or(0) == nice ||
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), value) == 0)
    return {};
  return fail_errno("nice value {}, which root can set: renice -n {} -p {}", nice, nice, thread);
}

Result<> set_real_time(const RealTime &wanted, pid_t thread) {
  sched_param p{};
  p.sched_priority = wanted.priority;
  if (real_time_of(thread) == wanted || ::sched_setscheduler(thread, wanted.policy, &p) == 0)
    return {};
  const char *name = wanted.policy == SCHED_FIFO ? "fifo" : "rr";
  return fail_errno("real-time policy, which root can set: chrt --{} --pid {} {}", name,
                    wanted.priority, thread);
}

// The letters of a mapping's flags (proc_pid_smaps(5), VmFlags): locked, when touched.
bool has_flag(pid_t process, u64 begin, std::string_view flag) {
  std::string smaps = proc::text(process, "smaps"), head = fmt::format("{:x}-", begin);
  bool found = false;
  for (std::string_view line : lines_of(smaps)) {
    found |= line.starts_with(head);
    if (found && line.starts_with("VmFlags:")) return std::ranges::count(words_of(line), flag) != 0;
  }
  return false;
}

}  // namespace

ThreadPolicies ThreadPolicies::of(pid_t process, pid_t thread) {
  ThreadPolicies p;
  long io = ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread);
  // A thread without a priority of its own has one by its niceness.
  if (io >= 0) p.io_priority = IOPRIO_PRIO_CLASS(io) == IOPRIO_CLASS_NONE ? 0 : io;
  p.timer_slack = number_in(thread, "timerslack_ns", 10);
  p.memory = policy_in(first_bytes(process, fmt::format("task/{}/numa_maps", thread)));
  p.nice = negative_nice(thread);
  p.real_time = real_time_of(thread);
  return p;
}

ThreadPolicies ThreadPolicies::different_from(const ThreadPolicies &given) const {
  ThreadPolicies p = *this;
  if (p.io_priority == given.io_priority) p.io_priority.reset();
  if (p.timer_slack == given.timer_slack) p.timer_slack.reset();
  if (p.memory == given.memory) p.memory.clear();
  return p;
}

ProcessPolicies ProcessPolicies::of(pid_t process) {
  ProcessPolicies p;
  if (std::optional<i64> n = number_in(process, "coredump_filter", 16))
    p.core_dump_filter = static_cast<u64>(*n);
  std::string ksm = proc::text(process, "ksm_stat");
  p.merge_pages = after_name(ksm, "ksm_merge_any: ") == "yes";
  return p;
}

std::vector<MemoryRange> ranges_with_own_policy(pid_t process) {
  std::map<u64, u64> ends;
  for (const ProcMapping &m : mappings_of(process)) ends[m.begin] = m.end;
  std::vector<MemoryRange> ranges;
  std::string numa_maps = proc::text(process, "numa_maps"), common;
  for (std::string_view line : lines_of(numa_maps)) {
    std::string policy = policy_in(line);
    if (common.empty()) common = policy;
    u64 begin = leading_number(line, u64{0}, 16);
    auto end = ends.find(begin);
    if (policy != common && end != ends.end()) ranges.push_back({begin, end->second, policy});
  }
  return ranges;
}

Result<int> locks_future_memory(pid_t process) {
  Result<proc::Status> status = proc::read_status(process);
  if (!status || status->locked_bytes == 0) return 0;
  CKPT_TRY(proc::RemoteCalls calls, proc::RemoteCalls::in(process, process));
  constexpr u64 kProtection = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_ANONYMOUS;
  Result<i64> at = calls.call(SYS_mmap, {0, kPage, kProtection, kKind, ~u64{0}, 0});
  CKPT_CHECK(check(at, "a mapping for a look at it"));
  u64 address = static_cast<u64>(*at);
  // The kernel may have made one mapping of it and its neighbour.
  u64 begin = address;
  for (const ProcMapping &m : mappings_of(process))
    if (m.begin <= address && address < m.end) begin = m.begin;
  int flags = has_flag(process, begin, "lo") ? MCL_FUTURE : 0;
  if (flags && has_flag(process, begin, "lf")) flags |= MCL_ONFAULT;
  (void)calls.call(SYS_munmap, {address, kPage, 0, 0, 0, 0});
  return flags;
}

Result<> apply(const ThreadPolicies &p, pid_t process, pid_t thread) {
  if (p.io_priority &&
      ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, thread, static_cast<int>(*p.io_priority)) < 0)
    return fail_errno("I/O priority");
  if (needs_remote_calls(p)) CKPT_CHECK(apply_from_inside(p, process, thread));
  if (p.nice) CKPT_CHECK(set_nice(*p.nice, thread));
  return p.real_time ? set_real_time(*p.real_time, thread) : Result<>();
}

Result<> apply(const ProcessPolicies &p, pid_t process) {
  if (p.core_dump_filter) {
    std::string mask = fmt::format("{:#x}\n", *p.core_dump_filter);
    CKPT_CHECK(write_file_text(proc::path(process, "coredump_filter"), mask));
  }
  if (!needs_remote_calls(p)) return {};
  CKPT_TRY(proc::RemoteCalls calls, proc::RemoteCalls::in(process, process));
  for (const MemoryRange &r : p.ranges)
    CKPT_CHECK(set_policy(calls, SYS_mbind, {r.begin, r.end - r.begin}, r.policy));
  if (p.merge_pages) CKPT_CHECK(check(calls.call(SYS_prctl, {kSetMemoryMerge, 1}), "KSM"));
  if (p.lock_future)
    CKPT_CHECK(check(calls.call(SYS_mlockall, {static_cast<u64>(p.lock_future)}), "mlockall"));
  return {};
}

}  // namespace ckpt::tools

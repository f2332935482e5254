// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/kernel_state.h"

#include <algorithm>
#include <set>

#include "tools/net/socket_options.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/watches.h"

namespace ckpt::tools {
namespace {

// Those that the program has chosen itself. All others will be those of ckpt-restore.
std::vector<manifest::PoliciesOfThreads> describe_threads(pid_t process,
                                                          const ThreadPolicies &given) {
  std::vector<manifest::PoliciesOfThreads> groups;
  for (const ThreadIds &t : thread_ids_of(process)) {
    ThreadPolicies own = ThreadPolicies::of(process, t.id).different_from(given);
    if (own.empty()) continue;
    auto same = std::ranges::find(groups, own, &manifest::PoliciesOfThreads::policies);
    if (same == groups.end()) {
      groups.push_back({own, {}});
      same = std::prev(groups.end());
    }
    same->threads.push_back(t.ns_id);
  }
  return groups;
}

ProcessPolicies describe_process(pid_t process, const ProcessPolicies &given,
                                 const MemoryRanges &ranges, std::vector<std::string> &remarks) {
  ProcessPolicies own = ProcessPolicies::of(process);
  if (own.core_dump_filter == given.core_dump_filter) own.core_dump_filter.reset();
  if (Result<int> flags = locks_future_memory(process))
    own.lock_future = *flags;
  else
    remarks.push_back(
        fmt::format("process {} has locked memory; whether it locks all that it will map "
                    "(mlockall, MCL_FUTURE) cannot be seen ({}), and a restored copy does not",
                    process, flags.error().what));
  if (auto it = ranges.find(process); it != ranges.end()) own.ranges = it->second;
  return own;
}

bool is_inotify(const Descriptor &d) {
  return d.target == "anon_inode:inotify" || d.target == "inotify";
}

bool is_fanotify(const Descriptor &d) { return d.target == "anon_inode:[fanotify]"; }

}  // namespace

MemoryRanges memory_ranges(const Target &target) {
  MemoryRanges all;
  for (const Process &p : target.processes)
    if (std::vector<MemoryRange> ranges = ranges_with_own_policy(p.pid); !ranges.empty())
      all[p.pid] = std::move(ranges);
  return all;
}

void describe_policies(const Target &target, const MemoryRanges &ranges,
                       std::vector<manifest::ProcessEntry> &processes,
                       std::vector<std::string> &remarks) {
  const ThreadPolicies given = ThreadPolicies::of(target.keeper, target.keeper);
  const ProcessPolicies given_process = ProcessPolicies::of(target.keeper);
  for (manifest::ProcessEntry &entry : processes) {
    if (entry.ended) continue;
    entry.thread_policies = describe_threads(entry.host_pid, given);
    entry.policies = describe_process(entry.host_pid, given_process, ranges, remarks);
  }
}

std::vector<manifest::SocketOptions> describe_socket_options(const Target &target,
                                                             const DescriptorTable &table) {
  std::vector<manifest::SocketOptions> list;
  std::set<u64> seen;
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !seen.insert(d.inode).second) continue;
      UniqueFd socket = duplicate_descriptor(p.pid, d.fd);
      SocketState state = socket ? SocketState::of(socket.get(), p.pid) : SocketState();
      if (!state.empty()) list.push_back({{p.ns_pid(), d.fd}, std::move(state)});
    }
  return list;
}

Result<std::vector<manifest::DescriptorOf>> describe_unread_watches(const Target &target,
                                                                    const DescriptorTable &table) {
  std::vector<manifest::DescriptorOf> list;
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      if ((!is_inotify(d) && !is_fanotify(d)) || !has_unread_events(p.pid, d.fd)) continue;
      if (is_fanotify(d))
        return fail_with_hint(
            fmt::format("{}: descriptor {} (fanotify) has unread events, which would be lost",
                        name_of(p), d.fd),
            "run ckpt-dump again when the program has read them");
      list.push_back({p.ns_pid(), d.fd});
    }
  return list;
}

}  // namespace ckpt::tools

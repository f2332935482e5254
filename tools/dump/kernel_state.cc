// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/kernel_state.h"

#include <algorithm>
#include <set>

#include "tools/net/socket_options.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/watches.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

json as_json(const ThreadPolicies &p, const std::vector<pid_t> &threads) {
  json j = {{"threads", threads}};
  if (p.io_priority) j["io_priority"] = *p.io_priority;
  if (p.timer_slack) j["timer_slack"] = *p.timer_slack;
  if (!p.memory.empty()) j["memory"] = p.memory;
  if (p.nice) j["nice"] = *p.nice;
  if (p.real_time) j["real_time"] = {p.real_time->policy, p.real_time->priority};
  return j;
}

json as_json(const ProcessPolicies &p) {
  json j = json::object();
  if (p.core_dump_filter) j["core_dump_filter"] = *p.core_dump_filter;
  if (p.merge_pages) j["merge_pages"] = true;
  if (p.lock_future) j["lock_future"] = p.lock_future;
  for (const MemoryRange &r : p.ranges) j["memory_ranges"].push_back({r.begin, r.end, r.policy});
  return j;
}

json as_json(const SocketState &s) {
  json j = {{"numbers", s.numbers}, {"words", s.words}, {"groups", json::array()}};
  for (const SocketGroup &g : s.groups)
    j["groups"].push_back({{"interface", g.interface},
                           {"group", g.group},
                           {"only_sources", g.only_sources},
                           {"sources", g.sources}});
  return j;
}

// Those that the program has chosen itself. All others will be those of ckpt-restore.
json describe_threads(pid_t process, const ThreadPolicies &given) {
  std::vector<std::pair<ThreadPolicies, std::vector<pid_t>>> groups;
  for (const ThreadIds &t : thread_ids_of(process)) {
    ThreadPolicies own = ThreadPolicies::of(process, t.id).different_from(given);
    if (own.empty()) continue;
    auto same = std::ranges::find_if(groups, [&](const auto &g) { return g.first == own; });
    if (same == groups.end()) {
      groups.emplace_back(own, std::vector<pid_t>());
      same = std::prev(groups.end());
    }
    same->second.push_back(t.ns_id);
  }
  json list = json::array();
  for (const auto &[policies, threads] : groups) list.push_back(as_json(policies, threads));
  return list;
}

json describe_process(pid_t process, const ProcessPolicies &given, const MemoryRanges &ranges) {
  ProcessPolicies own = ProcessPolicies::of(process);
  if (own.core_dump_filter == given.core_dump_filter) own.core_dump_filter.reset();
  own.lock_future = locks_future_memory(process);
  if (auto it = ranges.find(process); it != ranges.end()) own.ranges = it->second;
  return as_json(own);
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

void describe_policies(const Target &target, const MemoryRanges &ranges, json &processes) {
  const ThreadPolicies given = ThreadPolicies::of(target.keeper, target.keeper);
  const ProcessPolicies given_process = ProcessPolicies::of(target.keeper);
  for (json &entry : processes) {
    pid_t pid = entry.at("host_pid").get<pid_t>();
    if (entry.value("ended", false)) continue;
    if (json threads = describe_threads(pid, given); !threads.empty())
      entry["thread_policies"] = std::move(threads);
    if (json policies = describe_process(pid, given_process, ranges); !policies.empty())
      entry["policies"] = std::move(policies);
  }
}

json describe_socket_options(const Target &target, const DescriptorTable &table) {
  json list = json::array();
  std::set<u64> seen;
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !seen.insert(d.inode).second) continue;
      UniqueFd socket = duplicate_descriptor(p.pid, d.fd);
      SocketState state = socket ? SocketState::of(socket.get(), p.pid) : SocketState();
      if (state.empty()) continue;
      json entry = as_json(state);
      entry["pid"] = p.ns_pid();
      entry["fd"] = d.fd;
      list.push_back(std::move(entry));
    }
  return list;
}

Result<json> describe_unread_watches(const Target &target, const DescriptorTable &table) {
  json list = json::array();
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      if ((!is_inotify(d) && !is_fanotify(d)) || !has_unread_events(p.pid, d.fd)) continue;
      if (is_fanotify(d))
        return fail_with_hint(
            fmt::format("{}: descriptor {} (fanotify) has unread events, which would be lost",
                        name_of(p), d.fd),
            "run ckpt-dump again when the program has read them");
      list.push_back({{"pid", p.ns_pid()}, {"fd", d.fd}});
    }
  return list;
}

}  // namespace ckpt::tools

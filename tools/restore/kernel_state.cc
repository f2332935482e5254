// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/kernel_state.h"

#include <map>

#include <fmt/ranges.h>

#include "common/base/log.h"
#include "tools/proc/descriptors.h"
#include "tools/restore/lost_events.h"

namespace ckpt::tools {
namespace {

using Processes = std::map<pid_t, Process>;  // by PID, as they see it themselves

Processes processes_below(pid_t root) {
  Processes all;
  for (Process &p : ProcessTable::read().tree(root)) all[p.ns_pid()] = std::move(p);
  return all;
}

Result<> set_policies(const Process &p, const ImageManifest::ProcessEntry &recorded) {
  std::map<pid_t, const ThreadPolicies *> by_thread;
  for (const ImageManifest::PoliciesOfThreads &t : recorded.thread_policies)
    for (pid_t thread : t.threads) by_thread[thread] = &t.policies;
  Result<> done;
  for (auto [thread, ns_thread] : thread_ids_of(p.pid))
    if (auto it = by_thread.find(ns_thread); it != by_thread.end())
      if (Result<> set = apply(*it->second, p.pid, thread); !set) done = std::move(set);
  if (recorded.policies.empty()) return done;
  Result<> set = apply(recorded.policies, p.pid);
  return set ? done : set;
}

void restore_policies(const Processes &processes, const ImageManifest &m) {
  for (const ImageManifest::ProcessEntry &recorded : m.processes) {
    auto p = processes.find(recorded.pid);
    if (p == processes.end() || (recorded.thread_policies.empty() && recorded.policies.empty()))
      continue;
    if (Result<> done = set_policies(p->second, recorded); !done)
      log::warn("{}: a policy could not be set again ({}); the program may run slower",
                name_of(p->second), done.error().what);
  }
}

UniqueFd descriptor(const Processes &processes, const ImageManifest::DescriptorOf &d) {
  auto p = processes.find(d.pid);
  return p == processes.end() ? UniqueFd() : duplicate_descriptor(p->second.pid, d.fd);
}

void restore_socket_options(const Processes &processes, const ImageManifest &m) {
  for (const ImageManifest::SocketOptions &s : m.socket_options) {
    UniqueFd socket = descriptor(processes, s.at);
    std::vector<std::string> failed;
    if (socket) failed = s.state.apply_to(socket.get());
    // It may be a connection, which has become a new socket without an address.
    if (!failed.empty() && m.for_copies && m.for_copies->tcp_close) continue;
    if (!socket || !failed.empty())
      log::warn("the options of a socket (process {}, descriptor {}) could not be set again: {}",
                s.at.pid, s.at.fd,
                socket ? fmt::format("{}", fmt::join(failed, ", ")) : "it cannot be reached");
  }
}

void restore_watches(const Processes &processes, const ImageManifest &m) {
  for (const ImageManifest::DescriptorOf &d : m.unread_watches) {
    UniqueFd watch = descriptor(processes, d);
    Result<> done = watch ? report_lost_events(watch.get()) : fail("it cannot be reached");
    if (done)
      log::warn(
          "process {}: descriptor {} (inotify) had unread events; in their place the program reads "
          "that events were lost (IN_Q_OVERFLOW)",
          d.pid, d.fd);
    else
      log::warn("process {}: descriptor {} (inotify) had unread events, which are lost ({})", d.pid,
                d.fd, done.error().what);
  }
}

}  // namespace

void restore_kernel_state(pid_t root, const ImageManifest &m) {
  const Processes processes = processes_below(root);
  restore_policies(processes, m);
  restore_socket_options(processes, m);
  restore_watches(processes, m);
}

Result<> restore_first_code(pid_t root, const ImageManifest &m) {
  const Processes processes = processes_below(root);
  for (const ImageManifest::ProcessEntry &recorded : m.processes)
    if (auto p = processes.find(recorded.pid); p != processes.end() && recorded.first_code)
      CKPT_CHECK(recorded.first_code->restore_in(p->second.pid));
  return {};
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// The IP sockets of a program, and which of its TCP connections have both ends in it and can
// therefore be dumped.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/job/messages.h"
#include "tools/manifest/manifest.h"
#include "tools/net/connection_lock.h"
#include "tools/net/inet_table.h"
#include "tools/net/repair_mode.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class Connections {
 public:
  // Where the other ends of the connections may be. The coordinator of a job checks those that are
  // in another program of the job. Closed: no end is restored.
  enum class Scope { Program, Job, Closed };

  static Connections read(const Target &target);

  // Connections that lead out of the program, or that are not established or not accepted yet.
  // Waits a moment for the latter.
  static void check(const Target &target, Scope scope, Closables &reasons);

  bool empty() const { return flows_.empty(); }
  // The packets that a lock has to stop.
  const std::vector<PacketFlow> &flows() const { return flows_; }
  // The connections that `earlier` did not have: nothing has stopped their packets.
  bool all_in(const Connections &earlier) const;
  std::vector<manifest::Socket> describe() const;
  // The connections that the coordinator of a job has to compare: those with an end outside of the
  // program, and those of this network namespace that no process has open. `may_close`: the
  // processes that may still close theirs.
  std::vector<JobConnection> outward(const std::set<pid_t> &may_close) const;

 private:
  struct Held {
    pid_t pid = 0;
    int fd = -1;
    std::string command;
    bool udp = false;
    bool own_namespace = false;  // in a network namespace that is not ours
    InetSocket socket;
    std::string owner() const;  // "process 12 (server): descriptor 5"
  };
  // Whether a connection can be dumped: yes, perhaps in a moment, or no.
  struct Trouble {
    std::string why;
    bool may_pass = false;
    pid_t pid = 0;
  };

  void read_process(const Process &p);
  void find_flows();
  Trouble trouble_of(const Held &h, Scope scope) const;
  Trouble trouble_of_other_end(const Held &h) const;
  std::vector<Trouble> troubles(Scope scope) const;
  void check_lock(Closables &reasons) const;
  const InetSocket *other_end(const InetSocket &s) const;

  std::vector<InetSocket> table_;  // all TCP sockets of our network namespace
  std::vector<Held> held_;
  std::set<u64> inside_;  // inodes of the program's sockets
  std::vector<PacketFlow> flows_;
};

}  // namespace ckpt::tools

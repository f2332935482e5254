// SPDX-License-Identifier: Apache-2.0
//
// ckptd: sockets, clock and measurements around the policy. One thread, one poll loop. Whatever a
// peer sends or does not send, a turn of the loop hears one message of it at most, as it does of
// each other one; telling tools how the node is takes a tenth of the time at most; and what a peer
// makes us remember, or does not read, has a bound.
#pragma once

#include <signal.h>

#include <fstream>
#include <list>
#include <memory>
#include <set>

#include "manager/daemon/io/listener.h"
#include "manager/daemon/io/metrics_server.h"
#include "manager/daemon/io/peer.h"
#include "manager/daemon/measure/disconnected_clients.h"
#include "manager/daemon/measure/exiting_clients.h"
#include "manager/daemon/measure/meter.h"
#include "manager/daemon/report/counters.h"
#include "manager/daemon/report/profiles_file.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

struct DaemonOptions {
  Settings settings;
  std::string socket;
  std::chrono::milliseconds reconnect_timeout = std::chrono::seconds(10);
  bool all_users = false;
  std::vector<uid_t> users;   // besides our own and root
  u16 metrics_port = 0;       // of the loopback interface; 0: none
  std::string profiles_file;  // a file: what is known of profiles of programs; empty: none
  std::string journal;        // a file: one line of JSON for each message; empty: none
  size_t connections = 4096;  // at a time; of one user but root, as many as are still free then
  std::chrono::milliseconds reading = std::chrono::seconds(10);  // that a status may take
};

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(DaemonOptions options,
                                                std::unique_ptr<Meter> meter);
  // Until INT or TERM.
  Result<> run();

 private:
  Daemon(DaemonOptions options, std::unique_ptr<Meter> meter);
  Result<> watch_signals();
  Result<> serve_metrics();
  std::string metrics();
  void turn();
  int patience() const;
  std::optional<Time> next_of(const Peer &peer) const;
  void accept();
  bool may_speak(uid_t uid) const;
  bool has_its_share(uid_t uid) const;
  void serve(Peer &peer, short events);
  void hear(Peer &peer);
  Result<> hear_next(Peer &peer);
  Result<> welcome(Peer &peer, const managed::to_manager::Join &m);
  Result<> hear_one(Peer &peer, const managed::ToManager &message);
  void answer_who_asks();
  managed::ToProgram status();
  void refuse(Peer &peer, std::string what, std::string hint);
  void hang_up(Peer &peer);
  void drop_the_dead();
  void remember(const Peer &peer);
  void note_holder(Peer &peer, u32 pid);
  void measure(const Peer *about);
  void measure_one(GpuIndex gpu, const Reading &reading, const Peer *about, std::set<i32> &seen);
  void decide(const Peer &peer, const managed::ToManager &message);
  void carry_out(const Orders &orders);
  void note(const char *direction, ProgramId program, const char *message);
  Time now() const;

  DaemonOptions options_;
  std::unique_ptr<Meter> meter_;
  Policy policy_;
  ProfilesFile profiles_file_;
  Counters counters_;
  std::unique_ptr<MetricsServer> metrics_server_;  // null: nobody wants any
  std::string metrics_;
  Time metrics_at_{0};
  Listener listener_;
  UniqueFd signals_;
  std::list<Peer> peers_;
  DisconnectedClients disconnected_;
  ExitingClients exiting_;
  std::vector<ProgramId> dead_;  // their connections are over
  ProgramId next_id_ = 1;
  std::ofstream journal_;
  Time last_tick_{0};
  Time next_status_{0};
  bool over_ = false;
};

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
//
// ckptd: sockets, clock and measurements around the policy, in one thread with one poll loop. No
// peer can starve the others: a turn of the loop processes at most one message of each peer, status
// requests take at most a tenth of the time, and the memory that a peer can make the daemon use is
// bounded.
#pragma once

#include <signal.h>

#include <fstream>
#include <list>
#include <memory>

#include "common/base/log_limit.h"
#include "common/ipc/listener.h"
#include "manager/daemon/io/metrics_server.h"
#include "manager/daemon/io/peer.h"
#include "manager/daemon/io/socket_file.h"
#include "manager/daemon/measure/measurements.h"
#include "manager/daemon/report/counters.h"
#include "manager/daemon/report/profiles_file.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

struct DaemonOptions {
  Settings settings;
  std::string socket;
  std::chrono::milliseconds reconnect_timeout = std::chrono::seconds(10);
  bool all_users = false;
  std::vector<uid_t> users;               // besides the user of the daemon and root
  std::optional<MetricsAddress> metrics;  // where they are served
  std::string profiles_file;              // keeps the profiles of workloads; empty: none
  std::string journal;        // a file with one line of JSON for each message; empty: none
  size_t connections = 4096;  // at a time; a user other than root gets at most the free ones
  std::chrono::milliseconds reading = std::chrono::seconds(10);  // for a peer to read its status
};

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(DaemonOptions options,
                                                std::unique_ptr<Meter> meter);
  // Returns after SIGINT or SIGTERM.
  Result<> run();

 private:
  Daemon(DaemonOptions options, std::unique_ptr<Meter> meter);
  Result<> watch_signals();
  Result<> serve_metrics();
  std::string metrics();
  void turn();
  void tick();
  int poll_timeout() const;
  std::optional<Time> next_of(const Peer &peer) const;
  Result<> listen();
  size_t room() const;
  void turn_listener();
  void accept(Listener::Connection connection);
  void expel(const Listener::Expelled &e);
  bool is_allowed(uid_t uid) const;
  bool has_free_share(uid_t uid) const;
  void serve(Peer &peer, short events);
  void read_from(Peer &peer);
  Result<> process_next(Peer &peer);
  Result<> welcome(Peer &peer, const managed::to_manager::Join &m);
  Result<> process(Peer &peer, const managed::ToManager &message);
  void send_statuses();
  managed::ToProgram status();
  void refuse(Peer &peer, std::string what, std::string hint);
  void warn_of(uid_t uid, const std::string &what);
  void close(Peer &peer);
  void close_connections();
  void measure(const Peer *about);
  void decide(const Peer &peer, const managed::ToManager &message);
  void carry_out(const Orders &orders);
  void write_journal(const char *direction, ProgramId program, const char *message);
  Time now() const;

  DaemonOptions options_;
  Measurements measurements_;
  Policy policy_;
  ProfilesFile profiles_file_;
  Counters counters_;
  LogLimit log_limit_;
  std::unique_ptr<MetricsServer> metrics_server_;  // null: no address was given
  std::string metrics_;
  Time metrics_at_{0};
  SocketFile socket_file_;
  std::unique_ptr<Listener> listener_;
  std::optional<Time> said_full_;
  UniqueFd signals_;
  std::list<Peer> peers_;
  std::vector<ProgramId> closing_;  // connections to be closed at the end of the turn
  ProgramId next_id_ = 1;
  std::ofstream journal_;
  Time last_tick_{0};
  Time next_status_{0};
  bool ended_ = false;
};

}  // namespace ckpt::manager

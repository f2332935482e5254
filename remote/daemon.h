// SPDX-License-Identifier: Apache-2.0
//
// ckpt-devd: accepts connections, gives each one a process (session.h), and admits users.
// One thread, one poll loop; it reads nothing that a peer has sent.
#pragma once

#include <sys/types.h>

#include <list>
#include <memory>
#include <optional>
#include <set>

#include "common/base/log_limit.h"
#include "remote/address.h"
#include "remote/admission.h"
#include "remote/inventory.h"
#include "remote/notes.h"
#include "remote/session.h"

namespace ckpt::remote {

struct DaemonOptions {
  std::string socket;             // the path of the UNIX socket; empty: none
  std::optional<Address> listen;  // with TLS
  std::string certificates;       // a folder
  bool munge = false;             // in place of certificates
  std::string munge_socket;       // empty: the usual one
  std::string account;            // as in SessionOptions
  std::set<std::string> users;
  Limits limits;
  ProxyStarter starter;
};

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(DaemonOptions options);
  ~Daemon();
  // Until SIGINT or SIGTERM.
  Result<> run();

 private:
  struct Peer {
    pid_t pid = 0;
    UniqueFd session;  // this side of the socket pair
    Admission::Id id = 0;
    bool inside = false;
    u64 source = 0;    // for LogLimit: a uid, or what stands for the network
    std::string user;  // while `inside`
  };
  explicit Daemon(DaemonOptions options);
  Result<> open();
  Result<> listen();
  Result<> set_up_identification();
  void accept(int listener, bool tcp);
  Result<> start_session(UniqueFd socket, bool tcp, u64 source);
  bool serve(Peer &peer);
  bool take_note(Peer &peer, Note note, Reader r);
  bool keep_inventory(const Peer &peer, Note note, Reader r);
  void reap();
  void log_failure(const Peer &peer, std::string_view why);
  size_t greeting() const;

  DaemonOptions options_;
  std::optional<Tls> tls_;
  std::optional<Munge> munge_;
  Admission admission_;
  Inventories inventories_;
  LogLimit log_limit_;
  UniqueFd unix_, tcp_, signals_;
  std::list<Peer> peers_;
  Admission::Id last_id_ = 0;
};

}  // namespace ckpt::remote

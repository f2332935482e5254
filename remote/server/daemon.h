// SPDX-License-Identifier: Apache-2.0
//
// ckpt-devd: accepts connections, gives each one a process (session.h), and admits users.
// One thread, one poll loop, in which nothing waits for a peer or for a process. It reads nothing
// that a peer has sent, and of the processes only notes (notes.h).
#pragma once

#include <sys/types.h>

#include <list>
#include <memory>
#include <optional>
#include <set>

#include "common/base/log_limit.h"
#include "common/ipc/listener.h"
#include "common/ipc/message_reader.h"
#include "remote/server/admission.h"
#include "remote/server/inventory.h"
#include "remote/server/notes.h"
#include "remote/server/session.h"
#include "remote/transport/address.h"

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
  // Of one connection.
  struct Peer {
    Peer(Listener::Id newcomer, std::string source, pid_t pid, UniqueFd session);
    pid_t pid;              // its first process
    pid_t server = 0;       // the one with the CUDA driver; 0: none
    UniqueFd session;       // this side of the socket pair
    Listener::Id newcomer;  // also its number for Admission
    std::string source;     // peer_source.h
    MessageReader notes;
    bool inside = false;
    std::string user;  // while `inside`
  };
  explicit Daemon(DaemonOptions options);
  Result<> open();
  Result<> listen();
  Result<> set_up_identification();
  void turn_listener();
  void expel(const Listener::Expelled &newcomer);
  Result<> start_session(Listener::Connection connection);
  bool serve(Peer &peer);
  bool answer(const Peer &peer, const Result<> &result);
  bool refuse_stranger(const Peer &peer, Note note, pid_t sender);
  bool take_note(Peer &peer, Note note, Reader r);
  Result<> admit(Peer &peer, std::string_view user);
  bool keep_inventory(const Peer &peer, Note note, Reader r);
  void reap();
  void log_failure(const std::string &source, std::string_view why);

  DaemonOptions options_;
  std::optional<Tls> tls_;
  std::optional<Munge> munge_;
  Admission admission_;
  Inventories inventories_;
  LogLimit log_limit_;
  std::unique_ptr<Listener> listener_;
  UniqueFd signals_;
  std::list<Peer> peers_;
};

}  // namespace ckpt::remote

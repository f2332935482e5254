// SPDX-License-Identifier: Apache-2.0
//
// Who may use the devices of this node, and how much. Pure: the daemon tells it what happens.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::remote {

struct Limits {
  unsigned connections = 16;  // of one user
  unsigned all_connections = 1024;
  u64 memory = 0;  // of one user, in bytes, on the devices and for their code; 0: no limit
};

class Admission {
 public:
  // `users`: names; "*" is every user that the connection has authenticated.
  Admission(std::set<std::string> users, Limits limits)
      : users_(std::move(users)), limits_(limits) {}

  using Id = u64;  // of a connection
  Result<> admit(Id id, const std::string &user);
  // `change` more bytes of memory, or fewer. False: the user's limit does not allow it.
  bool change_memory(Id id, i64 change);
  void left(Id id);

  size_t connections() const { return connections_.size(); }
  u64 memory_of(const std::string &user) const;

 private:
  struct Connection {
    std::string user;
    u64 bytes = 0;
  };
  std::set<std::string> users_;
  Limits limits_;
  std::map<Id, Connection> connections_;
};

}  // namespace ckpt::remote

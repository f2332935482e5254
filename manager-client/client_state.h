// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the client share. Its mutex guards all of it, except for the socket
// (connection.h).
#pragma once

#include <mutex>
#include <string>

#include "agent/lifecycle/lifecycle.h"
#include "manager-client/claims.h"
#include "manager-client/connection.h"
#include "manager-client/eviction.h"
#include "manager-client/program.h"
#include "manager-client/waiters.h"

namespace ckpt::manager_client {

struct ClientState {
  ClientState(agent::Lifecycle &of_program, std::string socket_path)
      : lifecycle(of_program),
        connection(std::move(socket_path)),
        eviction(of_program),
        waiters(connection, eviction),
        claims{{connection, program, eviction, waiters}, {connection, program, waiters}} {}
  ClientState(const ClientState &) = delete;

  agent::Lifecycle &lifecycle;
  std::mutex mutex;
  Connection connection;
  Program program;
  Eviction eviction;
  Waiters waiters;
  Claims claims;
};

}  // namespace ckpt::manager_client

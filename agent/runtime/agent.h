// SPDX-License-Identifier: Apache-2.0
//
// The one thread in the application's process that tools talk to. There is at most one Agent in a
// process; it is never destroyed, since its thread may outlive main().
#pragma once

#include <pthread.h>

#include <vector>

#include "agent/ipc/channel.h"
#include "agent/ipc/outcome_pipe.h"
#include "agent/lifecycle/lifecycle.h"
#include "manager-client/manager_client.h"

namespace ckpt::agent {

class Agent {
 public:
  Lifecycle life;
  manager_client::ManagerClient manager{life};

  // The agent of this process, started if need be; an error without a session.
  static Result<Agent *> get();
  // The same if it runs, else null.
  static Agent *running();

  Result<> add(Participant *participant);
  // As a tool of this very process: its requests wait for their turn like any other's.
  Result<Channel> connect_to_self();
  std::vector<Participant *> participants();
  bool on_its_thread() const { return ::pthread_equal(thread_, ::pthread_self()); }

 private:
  friend struct AgentProcess;
  Agent() : life([this] { return participants(); }) {}
  static void *thread(void *self);
  Result<> start();

  void run();
  bool wait_for_tool();
  void serve(Channel tool);
  void after_detach(OwnFd outcome_pipe);
  void arrive(const CheckpointOutcome &heard);
  bool restore(Channel &keeper, const CheckpointOutcome &heard);
  void listen();
  void stop_listening();

  Listener listener_;
  pthread_t thread_{};
  std::vector<Participant *> participants_;
};

}  // namespace ckpt::agent

// SPDX-License-Identifier: Apache-2.0
//
// The agent: the one thread in the application's process that tools talk to. A process has at most
// one Agent. It is never destroyed, because its thread may outlive main().
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "agent/ipc/channel.h"
#include "agent/ipc/outcome_pipe.h"
#include "agent/lifecycle/lifecycle.h"
#include "agent/runtime/event_source.h"

namespace ckpt::agent {

class Agent {
 public:
  Lifecycle lifecycle;

  // The agent of this process, which is started if necessary. Fails without a session.
  static Result<Agent *> get();
  // The agent of this process if it runs, else null.
  static Agent *running();

  // Adds the participant if `start` returns true.
  Result<> add(Participant *participant, const std::function<bool()> &start);
  // A connection of this process to its own agent, like a tool's: its requests wait for their turn.
  Result<Channel> connect_to_self();
  std::vector<Participant *> participants();
  bool on_its_thread() const { return ::pthread_equal(thread_, ::pthread_self()); }
  EventSource *event_source() const { return source_.get(); }  // may be null

 private:
  friend struct AgentProcess;
  Agent();
  static void *thread(void *self);
  Result<> start();

  void run();
  bool wait_for_tool();
  void serve_next_tool();
  void serve(Channel tool);
  void converse(Channel tool, std::function<void()> before_changes);
  void after_detach(OwnFd outcome_pipe);
  void arrive(const CheckpointOutcome &outcome);
  void lose_as_copy(const Error &why);
  void watch_keeper();
  Result<> restore(Channel &keeper, const CheckpointOutcome &outcome);
  void listen();
  void stop_listening();

  Listener listener_;
  Channel keeper_;  // of a suspended program; a hang-up says that the keeper has ended
  pthread_t thread_{};
  std::vector<Participant *> participants_;
  std::unique_ptr<EventSource> source_;
  std::atomic<bool> busy_{false};  // a tool is connected
};

}  // namespace ckpt::agent

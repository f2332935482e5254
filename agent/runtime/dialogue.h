// SPDX-License-Identifier: Apache-2.0
//
// One conversation with a tool: decodes its requests, has the life cycle execute them, and answers.
// A request that is malformed, or not possible in the current state, is answered with Failed and
// changes nothing.
#pragma once

#include <functional>
#include <memory>

#include "agent/ipc/channel.h"
#include "agent/lifecycle/lifecycle.h"

namespace ckpt::agent {

class Dialogue {
 public:
  enum class End : u8 {
    HungUp,    // the tool hung up; the state is that of the last request
    Detached,  // Detach is answered; the outcome comes in take_outcome_pipe()
    Resumed,   // the devices work again; Resume is not answered yet
  };

  // `our_fds`: descriptors of the agent that may still be open after Detach. `before_changes` is
  // called once, before the first request that does more than to look at the program.
  Dialogue(Lifecycle &lifecycle, Channel &tool, std::vector<int> our_fds,
           std::function<void()> before_changes = {})
      : lifecycle_(lifecycle),
        tool_(tool),
        our_fds_(std::move(our_fds)),
        before_changes_(std::move(before_changes)) {}

  End run();
  OwnFd take_outcome_pipe() { return std::move(outcome_pipe_); }

 private:
  struct Verb;
  static const Verb kVerbs[];

  void serve(Incoming &request);
  void begin_changes();
  Result<> check(const Verb &verb) const;
  void hello(Incoming &request);
  void preflight(Incoming &request);
  void remarks(Incoming &request);
  void devices(Incoming &request);
  void loss(Incoming &request);
  void callbacks(Incoming &request);
  void compiled(Incoming &request);
  void answer_waits(const std::vector<Lifecycle::Wait> &waits);
  void answer_reasons(const std::vector<std::string> &sentences);
  void prepare(Incoming &request);
  void copy_ahead(Incoming &request);
  void quiesce(Incoming &request);
  void contents_readable(Incoming &request);
  void survey(Incoming &request);
  void start_owner(Incoming &request);
  void allow_owed(Incoming &request);
  void parent_chunks(Incoming &request);
  void zeros_loadable(Incoming &request);
  void waits(Incoming &request);
  void increment(Incoming &request);
  void keep(Incoming &request);
  void lock(Incoming &request);
  void suspend(Incoming &request);
  void suspend_memory(Incoming &request);
  void suspend_to(protocol::Depth depth, Incoming &request);
  void depth(Incoming &request);
  void deepen(Incoming &request);
  void requirements(Incoming &request);
  void traffic(Incoming &request);
  Result<> runs_or_is_suspended(const char *request) const;
  void device_map(Incoming &request);
  void wake(Incoming &request);
  void save(Incoming &request);
  void detach(Incoming &request);
  void attach(Incoming &request);
  void contents_loadable(Incoming &request);
  void contents_arrive(Incoming &request);
  void load(Incoming &request);
  void resume(Incoming &request);
  void checkpoint_failed(Incoming &request);

  void answer(const Result<> &result);
  void malformed(const char *request);

  Lifecycle &lifecycle_;
  Channel &tool_;
  std::vector<int> our_fds_;
  std::function<void()> before_changes_;
  bool changes_ = false;
  OwnFd outcome_pipe_;
  StagingSink::Lineage lineage_;
  std::unique_ptr<DirectMemory> contents_;  // of the next load(), in the tool's file
  bool greeted_ = false;
  bool over_ = false;
  End end_ = End::HungUp;
};

}  // namespace ckpt::agent

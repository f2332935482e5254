// SPDX-License-Identifier: Apache-2.0
//
// One conversation with a tool: decodes its requests, lets the life cycle do them, answers.
// Requests that make no sense, or not now, are answered with Failed and change nothing.
#pragma once

#include "agent/ipc/channel.h"
#include "agent/lifecycle/lifecycle.h"

namespace ckpt::agent {

class Dialogue {
 public:
  enum class End : u8 {
    HungUp,    // the tool went away; the state is whatever it was
    Detached,  // answered; outcome_pipe() is where to wait
    Resumed,   // devices are back; Resume is not answered yet
  };

  // `our_fds`: descriptors of the agent that are still open at detach.
  Dialogue(Lifecycle &life, Channel &tool, std::vector<int> our_fds)
      : life_(life), tool_(tool), our_fds_(std::move(our_fds)) {}

  End run();
  OwnFd take_word_pipe() { return std::move(outcome_pipe_); }

 private:
  struct Verb;
  static const Verb kVerbs[];

  void serve(Incoming &request);
  void hello(Incoming &request);
  void preflight(Incoming &request);
  void remarks(Incoming &request);
  void answer_with(const std::vector<std::string> &sentences);
  void quiesce(Incoming &request);
  void increment(Incoming &request);
  void suspend(Incoming &request);
  void needs_wanted(Incoming &request);
  void device_map(Incoming &request);
  void wake(Incoming &request);
  void save(Incoming &request);
  void detach(Incoming &request);
  void attach(Incoming &request);
  void load(Incoming &request);
  void resume(Incoming &request);
  void checkpoint_failed(Incoming &request);

  void answer(const Result<> &result);
  void malformed(const char *request);

  Lifecycle &life_;
  Channel &tool_;
  std::vector<int> our_fds_;
  OwnFd outcome_pipe_;
  StagingSink::Lineage lineage_;
  bool greeted_ = false;
  bool over_ = false;
  End end_ = End::HungUp;
};

}  // namespace ckpt::agent

// SPDX-License-Identifier: Apache-2.0
//
// A second task of the agent's thread, besides serving tools. The agent only polls it; the
// Manager's client is one (manager-client/client_source.cc). A room above the agent registers a
// factory in a static initializer. The agent calls it when it is created, before its thread starts,
// so that the source exists from the agent's first moment; a forked child that starts an agent of
// its own gets a source of its own.
#pragma once

#include <memory>

namespace ckpt::agent {

class Lifecycle;

class EventSource {
 public:
  virtual ~EventSource() = default;
  // The descriptor to poll for input; negative: none.
  virtual int fd() const = 0;
  // The time until dispatch() must be called in any case, in milliseconds; negative: no limit.
  virtual int timeout() = 0;
  // `readable`: the descriptor has input. Otherwise the timeout has passed.
  virtual void dispatch(bool readable) = 0;
  // Called in a conversation with a tool that does more than to look, which may be a checkpoint,
  // and after it. In between the source must hold no connection, because CRIU refuses a process
  // that has one.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // In exit(), on the thread that calls it, possibly in a signal handler: must not wait for a lock.
  virtual void exiting() = 0;
};

// Null: this process needs no source.
using MakeEventSource = std::unique_ptr<EventSource> (*)(Lifecycle &lifecycle);

// At most one factory. Returns true, so that a static initializer can call it.
bool register_event_source(MakeEventSource make);
std::unique_ptr<EventSource> make_event_source(Lifecycle &lifecycle);

}  // namespace ckpt::agent

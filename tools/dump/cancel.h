// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// SIGINT, SIGTERM and SIGHUP ask a tool to undo what it has begun. A thread reads them and runs the
// actions, which interrupt any wait of the main path. The main path then fails, and undoes its
// steps as after any other failure.
class Cancel {
 public:
  using Action = std::list<std::function<void()>>::iterator;

  // Blocks the signals, so create it before any other thread.
  Cancel();
  ~Cancel();

  int signal() const { return signal_; }  // 0: none has arrived
  // Fails once a signal has arrived.
  Result<> check() const;
  // Runs `f` in the thread when a signal arrives, or at once if one has arrived already.
  Action add(std::function<void()> f);
  void remove(Action a);

 private:
  void listen();
  std::atomic<int> signal_ = 0;
  std::mutex mutex_;
  std::list<std::function<void()>> actions_;
  UniqueFd signals_, stop_;
  std::thread thread_;
};

// An action for the duration of a scope.
class OnCancel {
 public:
  OnCancel(Cancel &cancel, std::function<void()> f)
      : cancel_(cancel), action_(cancel.add(std::move(f))) {}
  OnCancel(const OnCancel &) = delete;
  ~OnCancel() { cancel_.remove(action_); }

 private:
  Cancel &cancel_;
  Cancel::Action action_;
};

}  // namespace ckpt::tools

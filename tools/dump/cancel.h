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

// SIGINT, SIGTERM and SIGHUP ask a tool to undo what it began. They are read by a thread, which
// breaks what the main path is waiting for; the main path then fails and undoes as after any
// failure.
class Cancel {
 public:
  using Action = std::list<std::function<void()>>::iterator;

  Cancel();  // before any other thread is started: blocks the signals
  ~Cancel();

  int signal() const { return signal_; }  // 0: none came
  Result<> check() const;
  // `f` runs in the thread when a signal comes (at once if one came already).
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

// An action for the length of a scope.
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

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/notify.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "libckpt-ocl/client/link.h"

namespace ckpt::ocl {
namespace {

constexpr std::chrono::milliseconds kLookForWork{200};

struct Call {
  Ref<Event> event;
  Event::Callback callback;
};

class Notifier {
 public:
  void add(Event &e, Event::Callback callback) {
    std::lock_guard lock(mutex_);
    start();
    if (e.over()) {
      due_.push_back({Ref<Event>(&e), callback});
    } else {
      e.callbacks.push_back(callback);
      if (e.callbacks.size() == 1) e.keep();  // until it is over
      expected_++;
    }
    wake();
  }

  void over(Event &e) {
    std::lock_guard lock(mutex_);
    if (e.callbacks.empty()) return;
    Ref<Event> event(&e);
    for (const Event::Callback &c : e.callbacks) due_.push_back({event, c});
    expected_ -= e.callbacks.size();
    e.callbacks.clear();
    e.drop();
    wake();
  }

 private:
  // Signals are the application's threads' affair.
  void start() {
    if (std::exchange(started_, true)) return;
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { run(); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void wake() {
    changed_.notify_all();
    link().wake_waiters();
  }

  [[noreturn]] void run() {
    ::pthread_setname_np(::pthread_self(), "ckpt-callbacks");
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !due_.empty() || expected_ > 0; });
      if (due_.empty()) {
        lock.unlock();
        wait_for_completions();
        continue;
      }
      Call call = std::move(due_.front());
      due_.pop_front();
      lock.unlock();
      make(call);
    }
  }

  void wait_for_completions() {
    if (!link().usable()) {  // what is still to come is set by the application
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLookForWork, [this] { return !due_.empty(); });
      return;
    }
    Entry entry;
    auto something = [this] {
      std::lock_guard lock(mutex_);
      return !due_.empty() || expected_ == 0;
    };
    link().wait_until(something, true);
  }

  // An error is what every callback gets, whatever status it waited for.
  static void make(const Call &call) {
    cl_int status = call.event->status.load();
    call.callback.fn(handle<cl_event>(call.event.get()), status < 0 ? status : call.callback.type,
                     call.callback.user);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> due_;
  size_t expected_ = 0;  // callbacks of events that are not over
  bool started_ = false;
};

// Replaced in a fork's child, where its mutex may be held by a thread that is not there.
std::atomic<Notifier *> g_notifier{nullptr};
std::once_flag g_made;

Notifier &notifier() {
  std::call_once(g_made, [] { g_notifier = new Notifier; });
  return *g_notifier;
}

}  // namespace

void call_back(Event &e, Event::Callback callback) { notifier().add(e, callback); }

void is_over(Event &e) {
  if (Notifier *n = g_notifier.load()) n->over(e);
}

void forget_callbacks() {
  if (g_notifier.load()) g_notifier = new Notifier;
}

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/callbacks.h"

#include <condition_variable>
#include <deque>

#include "libckpt-ocl/client/command/helper_thread.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

constexpr std::chrono::milliseconds kWaitInterval{200};

struct Call {
  Ref<Event> event;
  Event::Callback callback;
};

class Notifier {
 public:
  bool add(Event &e, Event::Callback callback) {
    std::lock_guard lock(mutex_);
    if (!start()) return false;
    if (e.finished()) {
      due_.push_back({Ref<Event>(&e), callback});
    } else {
      e.callbacks.push_back(callback);
      if (e.callbacks.size() == 1) e.keep();  // until it has finished
      expected_++;
    }
    wake();
    return true;
  }

  void finished(Event &e) {
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
  bool start() {
    auto run = [](void *self) { static_cast<Notifier *>(self)->run(); };
    if (!started_) started_ = start_helper_thread("ckpt-callbacks", run, this);
    return started_;
  }

  void wake() {
    changed_.notify_all();
    link().wake_waiters();
  }

  [[noreturn]] void run() {
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
      ApiCall inside;  // the event may be the last that keeps a queue or context
      call.event = {};
    }
  }

  void wait_for_completions() {
    if (!link().usable()) {  // only user events can still finish
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kWaitInterval, [this] { return !due_.empty(); });
      return;
    }
    ApiCall call;
    auto changed = [this] {
      std::lock_guard lock(mutex_);
      return !due_.empty() || expected_ == 0;
    };
    link().wait_until(changed, true);
  }

  // After an error every callback gets the error, whatever status it was registered for.
  static void make(const Call &call) {
    cl_int status = call.event->status.load();
    call.callback.fn(handle<cl_event>(call.event.get()), status < 0 ? status : call.callback.type,
                     call.callback.user);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> due_;
  size_t expected_ = 0;  // callbacks of unfinished events
  bool started_ = false;
};

// Replaced in the child of a fork, where a thread that no longer exists may hold its mutex.
std::atomic<Notifier *> g_notifier{nullptr};
std::once_flag g_made;

Notifier &notifier() {
  std::call_once(g_made, [] { g_notifier = new Notifier; });
  return *g_notifier;
}

}  // namespace

bool add_callback(Event &e, Event::Callback callback) { return notifier().add(e, callback); }

void notify_finished(Event &e) {
  if (Notifier *n = g_notifier.load()) n->finished(e);
}

void reset_callbacks() {
  if (g_notifier.load()) g_notifier = new Notifier;
}

}  // namespace ckpt::ocl

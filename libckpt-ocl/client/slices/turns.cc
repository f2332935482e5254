// SPDX-License-Identifier: Apache-2.0
//
// A thread of the library ends the turns: it waits until the guest's own commands have finished,
// times an empty kernel on each device that was used, and pauses. It leaves the gate for a
// checkpoint, also while it pauses.
#include "libckpt-ocl/client/slices/turns.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "common/base/clock.h"
#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/command/helper_thread.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/slices/load_test.h"
#include "slicing/settings.h"
#include "slicing/turns.h"

namespace ckpt::ocl {
namespace {

using slicing::settings;

// Of the thread that ends the turns: its commands are none of the guest's.
thread_local bool t_tests_load = false;

class Turns {
 public:
  bool is_on() const { return !over_.load(std::memory_order_relaxed); }

  double target_ns() { return turns_.target_ns(); }

  bool has_room(u64 ns) {
    std::lock_guard lock(mutex_);
    if (!over_ && !turns_.has_room(static_cast<double>(ns))) end();
    return !over_;
  }

  void used(Queue &q, u64 ns) {
    if (t_tests_load) return;
    std::lock_guard lock(mutex_);
    auto same = [&](const Ref<Queue> &x) { return x.get() == &q; };
    if (std::ranges::none_of(queues_, same)) queues_.emplace_back(&q);
    if (turns_.used(static_cast<double>(ns), Clock::now()) && !over_) end();
  }

 private:
  // Without its thread nothing could begin the next turn.
  void end() {
    std::call_once(started_, [this] {
      has_thread_ = start_helper_thread(
          "ckpt-guest", [](void *self) { static_cast<Turns *>(self)->run(); }, this);
    });
    over_ = has_thread_;
    changed_.notify_all();
  }

  [[noreturn]] void run() {
    t_tests_load = true;
    for (;;) {
      std::vector<Ref<Queue>> queues;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return over_.load(); });
        queues.swap(queues_);
      }
      slicing::Turns::After after = test(queues, "turn");
      for (; after.test; after = test(queues, "test in the pause"))
        std::this_thread::sleep_until(*after.test);
      {
        ApiCall inside;  // a queue may be destroyed
        queues.clear();
      }
      std::this_thread::sleep_until(after.turn);
      ApiCall call;
      over_ = false;
      link().wake_waiters();
    }
  }

  slicing::Turns::After test(const std::vector<Ref<Queue>> &queues, const char *what) {
    ApiCall call;
    for (const Ref<Queue> &q : queues)
      if (Ref<Event> last = request_marker(*q)) wait(*last);
    return turns_.tested(what, time_empty_kernels(queues), Clock::now());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  slicing::Turns turns_{settings()};
  std::vector<Ref<Queue>> queues_;  // that were used in this turn
  std::atomic<bool> over_{false};
  std::once_flag started_;
  bool has_thread_ = false;
};

Turns &turns() {
  static Turns *const kTurns = new Turns;
  return *kTurns;
}

}  // namespace

double target_ns() { return turns().target_ns(); }

bool turn_is_on() { return !settings().guest || turns().is_on(); }

bool turn_has_room(u64 ns) { return !settings().guest || turns().has_room(ns); }

void turn_used(Queue &q, const Work &work) {
  if (settings().guest) turns().used(q, q.device->work_times.estimate(work));
}

}  // namespace ckpt::ocl

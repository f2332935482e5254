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

#include "common/base/log.h"
#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/command/helper_thread.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/slices/load_test.h"
#include "slicing/settings.h"

namespace ckpt::ocl {
namespace {

using Clock = std::chrono::steady_clock;
using slicing::settings;

// Of the thread that ends the turns: its commands are none of the guest's.
thread_local bool t_tests_load = false;

class Turns {
 public:
  bool is_on() const { return !over_.load(std::memory_order_relaxed); }

  double slice_ns() {
    std::lock_guard lock(mutex_);
    return cooperation_.slice_ns();
  }

  bool has_room(u64 ns) {
    std::lock_guard lock(mutex_);
    if (!over_ && !cooperation_.fits(static_cast<double>(ns))) end();
    return !over_;
  }

  void used(Queue &q, u64 ns) {
    if (t_tests_load) return;
    std::lock_guard lock(mutex_);
    auto same = [&](const Ref<Queue> &x) { return x.get() == &q; };
    if (std::ranges::none_of(queues_, same)) queues_.emplace_back(&q);
    if (cooperation_.used(static_cast<double>(ns), now_ns()) && !over_) end();
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
      Wait wait = test(queues, "turn");
      for (; wait.tests_again; wait = test(queues, "test in the pause")) sleep_until(wait.until);
      queues.clear();
      sleep_until(wait.until);
      ApiCall call;
      over_ = false;
      link().wake_waiters();
    }
  }

  static double now_ns() {
    return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
  }
  static void sleep_until(double ns) {
    std::chrono::duration<double, std::nano> time(ns);
    std::this_thread::sleep_until(
        Clock::time_point(std::chrono::duration_cast<Clock::duration>(time)));
  }

  // For the next test or, without one, for the next turn.
  struct Wait {
    bool tests_again;
    double until;
  };
  Wait test(const std::vector<Ref<Queue>> &queues, const char *what) {
    ApiCall call;
    for (const Ref<Queue> &q : queues)
      if (Ref<Event> last = request_marker(*q)) wait(*last);
    double taken = time_empty_kernels(queues);
    std::lock_guard lock(mutex_);
    bool before = cooperation_.continuous();
    double turn = cooperation_.tested(taken, now_ns());
    log::debug("{}: {}, the empty kernels took {:.3f} ms", what, before ? "continuous" : "periodic",
               taken / 1e6);
    if (before != cooperation_.continuous())
      log::info("guest: {} mode", before ? "periodic" : "continuous");
    if (cooperation_.tests_again()) return {true, cooperation_.next_test()};
    return {false, turn};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  slicing::Cooperation cooperation_{settings().cooperation};
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

double target_ns() {
  return !settings().guest || settings().slice_ns > 0 ? settings().slice_ns : turns().slice_ns();
}

bool turn_is_on() { return !settings().guest || turns().is_on(); }

bool turn_has_room(u64 ns) { return !settings().guest || turns().has_room(ns); }

void turn_used(Queue &q, const Work &work) {
  if (settings().guest) turns().used(q, q.device->work_times.estimate(work));
}

}  // namespace ckpt::ocl

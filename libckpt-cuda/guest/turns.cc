// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/turns.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "common/base/log.h"
#include "libckpt-cuda/entry/pass.h"
#include "slicing/settings.h"

namespace ckpt::cuda::guest {
namespace {

using Clock = std::chrono::steady_clock;

// Never destroyed, as the tables of kernels.cc.
struct Turns {
  std::mutex mutex;
  slicing::Cooperation cooperation{slicing::settings().cooperation};
  Clock::time_point next{};  // when the guest may go on
};
Turns &turns() {
  static Turns *const kTurns = new Turns;
  return *kTurns;
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}

Clock::time_point time_of(double ns) {
  std::chrono::duration<double, std::nano> time(ns);
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(time));
}

// Outside of the gate, so that a checkpoint need not wait.
void sleep_until(Clock::time_point time) {
  gate().outside([&] {
    std::this_thread::sleep_until(time);
    return true;
  });
}

// Returns when the next test is due. False: there is none before the next turn.
bool test_load(ContextTools &tools, const char *what) {
  double taken = time_empty_kernels(tools);
  Clock::time_point again;
  {
    std::lock_guard lock(turns().mutex);
    slicing::Cooperation &c = turns().cooperation;
    bool before = c.continuous();
    log::debug("{}: {}, the empty kernels took {:.3f} ms", what, before ? "continuous" : "periodic",
               taken / 1e6);
    turns().next = time_of(c.tested(taken, now_ns()));
    if (before != c.continuous()) log::info("guest: {} mode", before ? "periodic" : "continuous");
    if (!c.tests_again()) return false;
    again = time_of(c.next_test());
  }
  sleep_until(again);
  return true;
}

}  // namespace

double target_ns() {
  if (!slicing::settings().guest || slicing::settings().slice_ns > 0)
    return slicing::settings().slice_ns;
  std::lock_guard lock(turns().mutex);
  return turns().cooperation.slice_ns();
}

bool turn_has_room(double ns) {
  if (!slicing::settings().guest) return true;
  std::lock_guard lock(turns().mutex);
  return turns().cooperation.fits(ns);
}

bool turn_used(double ns, Work work) {
  if (!slicing::settings().guest) return false;
  std::lock_guard lock(turns().mutex);
  return turns().cooperation.used(ns, now_ns() - (work == Work::Ended ? ns : 0));
}

void end_turn(ContextTools &tools) {
  for (const char *what = "turn"; test_load(tools, what); what = "test in the pause") {
  }
  await_turn();
}

void await_turn() {
  if (!slicing::settings().guest) return;
  for (;;) {
    Clock::time_point next;
    {
      std::lock_guard lock(turns().mutex);
      next = turns().next;
    }
    if (next <= Clock::now()) return;
    sleep_until(next);
  }
}

}  // namespace ckpt::cuda::guest

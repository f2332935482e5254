// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/turns.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "common/base/clock.h"
#include "libckpt-cuda/entry/pass.h"
#include "slicing/settings.h"
#include "slicing/turns.h"

namespace ckpt::cuda::guest {
namespace {

// Never destroyed, as the tables of kernels.cc.
slicing::Turns &turns() {
  static slicing::Turns *const kTurns = new slicing::Turns(slicing::settings());
  return *kTurns;
}

// When the guest may go on.
std::mutex next_mutex;
Clock::time_point next_turn{};

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
  slicing::Turns::After after = turns().tested(what, taken, Clock::now());
  {
    std::lock_guard lock(next_mutex);
    next_turn = after.turn;
  }
  if (after.test) sleep_until(*after.test);
  return after.test.has_value();
}

}  // namespace

double target_ns() { return turns().target_ns(); }

bool turn_has_room(double ns) { return turns().has_room(ns); }

bool turn_used(double ns, Work work) {
  std::chrono::duration<double, std::nano> length(work == Work::Ended ? ns : 0);
  return turns().used(ns, Clock::now() - std::chrono::duration_cast<Clock::duration>(length));
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
      std::lock_guard lock(next_mutex);
      next = next_turn;
    }
    if (next <= Clock::now()) return;
    sleep_until(next);
  }
}

}  // namespace ckpt::cuda::guest

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

bool turn_used(double ns) {
  if (!slicing::settings().guest) return false;
  std::lock_guard lock(turns().mutex);
  return turns().cooperation.used(ns);
}

void end_turn(ContextTools &tools) {
  double taken = time_empty_kernel(tools);
  {
    std::lock_guard lock(turns().mutex);
    bool before = turns().cooperation.continuous();
    log::debug("turn: {}, the empty kernel took {:.3f} ms", before ? "continuous" : "periodic",
               taken / 1e6);
    auto pause = std::chrono::duration<double, std::nano>(turns().cooperation.tested(taken));
    turns().next = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause);
    if (before != turns().cooperation.continuous())
      log::info("guest: {} mode", before ? "periodic" : "continuous");
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
    gate().outside([&] {
      std::this_thread::sleep_until(next);
      return true;
    });
  }
}

}  // namespace ckpt::cuda::guest

// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/timers.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace ckpt::test {
using namespace tools;

TEST_CASE("the clocks of processes and threads are told from others") {
  clockid_t own;
  REQUIRE(::clock_getcpuclockid(1, &own) == 0);
  CHECK(CpuClock::of(own)->id == 1);
  CHECK(!CpuClock::of(own)->of_thread);
  REQUIRE(::pthread_getcpuclockid(::pthread_self(), &own) == 0);
  CHECK(CpuClock::of(own)->id == ::gettid());
  CHECK(CpuClock::of(own)->of_thread);
  CHECK(CpuClock::of_thread_with(::gettid()) == own);
  CHECK(!CpuClock::of(CLOCK_MONOTONIC));
  CHECK(!CpuClock::of(~3 * 8 + 3));  // of a descriptor (clock_getres(2))
}

TEST_CASE("the kernel shows the timers of a process") {
  sigevent e{};
  e.sigev_notify = SIGEV_THREAD_ID;
  e.sigev_signo = SIGUSR1;
  e._sigev_un._tid = ::gettid();
  timer_t timer;
  REQUIRE(::timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &timer) == 0);
  std::vector<PosixTimer> all = posix_timers_of(::getpid());
  CHECK(std::ranges::any_of(all, [](const PosixTimer &t) {
    return t.is_of_its_maker() && t.is_of_notified_thread() && t.signal == SIGUSR1;
  }));
  ::timer_delete(timer);
}

TEST_CASE("a timer of the C library notifies a thread of its own") {
  std::vector<PosixTimer> all = posix_timers_in(
      "ID: 0\nsignal: 32/0000000000000001\nnotify: signal/tid.12\nClockID: -2\n"
      "ID: 1\nsignal: 27/0000000000000000\nnotify: none/pid.12\nClockID: -6\n");
  REQUIRE(all.size() == 2);
  CHECK(all[0].is_of_its_maker());
  CHECK(!all[0].is_of_notified_thread());
  CHECK(!all[1].is_of_its_maker());
  CHECK(all[1].notify == SIGEV_NONE);
}

}  // namespace ckpt::test

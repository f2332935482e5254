// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/cancellable.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <thread>

using ckpt::tools::Cancellable;

TEST_CASE("a restore is cancelled, or closed, and keeps to it") {
  Cancellable cancelled, closed;
  CHECK(cancelled.signal() == 0);
  CHECK(cancelled.cancel(SIGTERM));
  CHECK(cancelled.cancel(SIGINT));
  CHECK_FALSE(cancelled.close());
  CHECK(cancelled.signal() == SIGTERM);
  CHECK(closed.close());
  CHECK_FALSE(closed.cancel(SIGTERM));
  CHECK(closed.signal() == 0);
}

TEST_CASE("of two threads that cancel and close at the same time, one succeeds") {
  for (int round = 0; round < 200; round++) {
    Cancellable c;
    bool cancelled = false;
    std::thread other([&] { cancelled = c.cancel(SIGTERM); });
    bool closed = c.close();
    other.join();
    CHECK(closed != cancelled);
  }
}

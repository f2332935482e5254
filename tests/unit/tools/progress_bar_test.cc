// SPDX-License-Identifier: Apache-2.0
#include "tools/progress_bar.h"

#include <fcntl.h>
#include <poll.h>

#include <doctest/doctest.h>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    read = UniqueFd(fds[0]);
    write = UniqueFd(fds[1]);
  }
  UniqueFd read, write;
};

}  // namespace

TEST_CASE("progress is written to terminals only") {
  Pipe pipe;
  {
    Progress progress("verify", false, Total::Exact, pipe.write.get());
    auto end = Clock::now() + std::chrono::milliseconds(150);
    while (Clock::now() < end) progress.update(5, 10);
  }
  pollfd p{pipe.read.get(), POLLIN, 0};
  CHECK(::poll(&p, 1, 0) == 0);
}

TEST_CASE("the time that is left is stated once a rate is known, and for exact totals only") {
  using std::chrono::seconds;
  Progress exact("verify"), estimate("dump", false, Total::Estimate);
  CHECK(exact.line(50 << 20, 100 << 20, seconds(1)) ==
        "verify: 50.0 MiB of 100.0 MiB (50%), 50.0 MiB/s");
  CHECK(exact.line(50 << 20, 100 << 20, seconds(10)) ==
        "verify: 50.0 MiB of 100.0 MiB (50%), 5.0 MiB/s, about 10 s left");
  CHECK(exact.line(1 << 20, 100 << 20, seconds(10)).ends_with("about 17 min left"));
  CHECK(estimate.line(50 << 20, 100 << 20, seconds(10)) ==
        "dump: 50.0 MiB of 100.0 MiB (50%), 5.0 MiB/s");
}

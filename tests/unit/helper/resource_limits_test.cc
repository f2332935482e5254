// SPDX-License-Identifier: Apache-2.0
#include "helper/resource_limits.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/identity.h"

using namespace ckpt;
using namespace ckpt::helper;

namespace {

// In a process of its own, without the right to raise limits.
bool without_rights(bool (*holds)()) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(keep_only(0) && holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("lower limits are taken over without any right, soft and hard") {
  CHECK(without_rights([] {
    Limits lower = proc::limits_of(::getpid()).value();
    lower[RLIMIT_NPROC] = {32, 64};
    lower[RLIMIT_CPU] = {1000, 1000};
    rlimit processes{};
    return take_limits(lower) && ::getrlimit(RLIMIT_NPROC, &processes) == 0 &&
           processes.rlim_cur == 32 && processes.rlim_max == 64;
  }));
}

TEST_CASE("a limit that cannot be taken over is an error that names it") {
  CHECK(without_rights([] {
    Limits limits = proc::limits_of(::getpid()).value();
    rlimit low{64, 64};
    if (::setrlimit(RLIMIT_NPROC, &low) != 0) return false;
    limits[RLIMIT_NPROC] = {65, 65};
    Result<> taken = take_limits(limits);
    return !taken && taken.error().what.find("Max processes") != std::string::npos &&
           taken.error().hint.find("LimitNPROC") != std::string::npos;
  }));
}

// SPDX-License-Identifier: Apache-2.0
#include "helper/resource_limits.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file_text.h"
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

TEST_CASE("the limits of a process are read as the kernel sets them") {
  Result<Limits> all = limits_of(::getpid());
  REQUIRE(all);
  for (int r = 0; r < RLIM_NLIMITS; r++) {
    rlimit own{};
    ::getrlimit(static_cast<__rlimit_resource>(r), &own);
    CHECK((*all)[static_cast<size_t>(r)].rlim_cur == own.rlim_cur);
    CHECK((*all)[static_cast<size_t>(r)].rlim_max == own.rlim_max);
  }
}

TEST_CASE("a file of limits that lacks one, or a value, is not understood") {
  std::string text = file_text("/proc/self/limits").value();
  REQUIRE(parse_limits(text));
  CHECK(!parse_limits(""));
  for (const char *name : {"Max cpu time", "Max open files", "Max realtime timeout"}) {
    std::string other = text;
    other.replace(other.find(name), 3, "Min");
    CHECK(!parse_limits(other));
    other = text;
    CHECK(!parse_limits(other.replace(other.find(name) + 26, 1, "x")));
  }
}

TEST_CASE("lower limits are taken over without any right, soft and hard") {
  CHECK(without_rights([] {
    Limits lower = limits_of(::getpid()).value();
    lower[RLIMIT_NPROC] = {32, 64};
    lower[RLIMIT_CPU] = {1000, 1000};
    rlimit processes{};
    return take_limits(lower) && ::getrlimit(RLIMIT_NPROC, &processes) == 0 &&
           processes.rlim_cur == 32 && processes.rlim_max == 64;
  }));
}

TEST_CASE("a limit that cannot be taken over is an error that names it") {
  CHECK(without_rights([] {
    Limits limits = limits_of(::getpid()).value();
    rlimit low{64, 64};
    if (::setrlimit(RLIMIT_NPROC, &low) != 0) return false;
    limits[RLIMIT_NPROC] = {65, 65};
    Result<> taken = take_limits(limits);
    return !taken && taken.error().what.find("Max processes") != std::string::npos &&
           taken.error().hint.find("LimitNPROC") != std::string::npos;
  }));
}

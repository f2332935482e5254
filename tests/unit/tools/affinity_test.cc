// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/affinity.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

namespace ckpt::test {
using tools::Affinity;

TEST_CASE("a list of processors is read and written as the kernel writes it") {
  for (const char *list : {"0", "0-3", "0-3,8", "1,3,5-6", "8191", "0-8191"}) {
    auto a = Affinity::parse(list);
    REQUIRE(a);
    CHECK(a->list() == list);
    CHECK(*a == *Affinity::parse(list));
    CHECK_FALSE(a->empty());
  }
  CHECK_FALSE(*Affinity::parse("0-3") == *Affinity::parse("0-4"));
}

TEST_CASE("what is no list of processors is refused") {
  for (const char *list : {"", ",", "0,", "-1", "1-", "3-1", "0 1", "+1", "a", "0-3-5", "8192",
                           "99999999999999999999", "1,0", "0-3,3", "0-3,2-5", "0,1"})
    CHECK_FALSE(Affinity::parse(list));
}

TEST_CASE("a thread is bound to one of its processors, and to all again") {
  std::thread([] {
    const Affinity all = Affinity::of(::gettid());
    REQUIRE_FALSE(all.empty());
    const auto one = Affinity::parse(std::to_string(::sched_getcpu()));
    REQUIRE(one);
    CHECK(one->apply_to(::gettid()));
    CHECK(Affinity::of(::gettid()) == *one);
    CHECK(all.apply_to(::gettid()));
    CHECK(Affinity::of(::gettid()) == all);
  }).join();
}

TEST_CASE("processors that the machine lacks, and a thread that has ended") {
  auto missing = Affinity::parse("8191");
  REQUIRE(missing);
  Result<> done = missing->apply_to(::gettid());
  REQUIRE_FALSE(done);
  CHECK(done.error().what.find("8191") != std::string::npos);
  CHECK(Affinity::of(-1).empty());
}

}  // namespace ckpt::test

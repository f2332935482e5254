// SPDX-License-Identifier: Apache-2.0
#include "remote/server/admission.h"

#include <doctest/doctest.h>

#include "remote/opencl/memory_account.h"
#include "ring/table.h"

using namespace ckpt;
using namespace ckpt::remote;

TEST_CASE("only named users are admitted, each with a limited number of connections") {
  Admission a({"ada", "bob"}, {2, 3, 0});
  CHECK(a.admit(1, "ada"));
  CHECK(a.admit(2, "ada"));
  CHECK(a.admit(3, "ada").error().what.find("as many as one user may have") != std::string::npos);
  CHECK_FALSE(a.admit(4, "eve"));
  CHECK_FALSE(a.admit(5, ""));
  CHECK(a.admit(6, "bob"));
  CHECK(a.admit(7, "bob").error().what.find("all 3 connections") != std::string::npos);
  a.left(1);
  CHECK(a.admit(8, "ada"));
  CHECK(Admission({"*"}, {}).admit(1, "eve"));
  CHECK_FALSE(Admission({"*"}, {}).admit(1, ""));
}

TEST_CASE("the memory of a user is that of all connections, and goes with them") {
  Admission a({"ada", "bob"}, {4, 8, 100});
  REQUIRE(a.admit(1, "ada"));
  REQUIRE(a.admit(2, "ada"));
  REQUIRE(a.admit(3, "bob"));
  CHECK(a.change_memory(1, 60));
  CHECK_FALSE(a.change_memory(2, 41));
  CHECK(a.change_memory(2, 40));
  CHECK(a.change_memory(3, 100));
  CHECK_FALSE(a.change_memory(3, INT64_MAX));
  a.left(1);
  CHECK(a.memory_of("ada") == 40);
  CHECK(a.change_memory(2, -1000));
  CHECK(a.memory_of("ada") == 0);
  CHECK_FALSE(a.change_memory(9, 1));
}

TEST_CASE("buffers and images are counted from their commands until they are released") {
  i64 asked = 0;
  MemoryAccount account([&](i64 change) { return (asked += change) <= 1000; });
  auto buffer = [](u64 number, u64 size) {
    Writer w;
    w.put(u64{1}).put(u64{0}).put(size);
    ocl::CommandHeader h{0, api::spec<&::clCreateBuffer>.op, ocl::kSync, number};
    return std::pair(h, w.take());
  };
  auto [first, one] = buffer(10, 600);
  CHECK(account.admit(first, one));
  auto [second, two] = buffer(11, 600);
  CHECK_FALSE(account.admit(second, two));
  asked = 600;  // what a daemon that refuses keeps
  account.released(ocl::Kind::Queue, 10);
  CHECK(account.bytes() == 600);
  account.released(ocl::Kind::Mem, 10);
  CHECK(account.bytes() == 0);
  CHECK(asked == 0);
  CHECK(account.admit(second, two));
  CHECK(account.admit({0, static_cast<u16>(ocl::Op::RoundTrip), 0, 0}, {}));
  CHECK(account.bytes() == 600);
}

TEST_CASE("a number that is used again does not hide the memory of the object that had it") {
  MemoryAccount account([](i64) { return true; });
  ocl::CommandHeader h{0, api::spec<&::clCreateBuffer>.op, ocl::kSync, 10};
  Bytes payload = Writer().put(u64{1}).put(u64{0}).put(u64{600}).take();
  CHECK(account.admit(h, payload));
  CHECK(account.admit(h, payload));
  CHECK(account.bytes() == 1200);
  account.released(ocl::Kind::Mem, 10);
  CHECK(account.bytes() == 600);
  account.released(ocl::Kind::Mem, 10);
  CHECK(account.bytes() == 600);
}

TEST_CASE("the sources and the code of programs count until they are released") {
  MemoryAccount account([](i64 change) { return change <= 1000; });
  ocl::CommandHeader h{0, static_cast<u16>(ocl::Op::ProgramSource), 0, 10};
  CHECK(account.admit(h, Bytes(900)));
  CHECK(account.bytes() == 900);
  account.released(ocl::Kind::Program, 10);
  CHECK(account.bytes() == 0);
  CHECK_FALSE(account.admit(h, Bytes(1001)));
}

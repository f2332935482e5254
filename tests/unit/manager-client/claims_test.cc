// SPDX-License-Identifier: Apache-2.0
#include "manager-client/claims.h"

#include <thread>

#include <doctest/doctest.h>

#include "manager-client/client_state.h"

namespace ckpt::test {
using namespace manager_client;
using Fate = Answer::Fate;
namespace {

// A client that has found no Manager yet, so its threads wait.
struct Client {
  agent::Lifecycle lifecycle{[] { return std::vector<agent::Participant *>(); }};
  ClientState state{lifecycle, "/nowhere/manager.sock"};

  // Runs f with the lock, once a thread waits.
  template <class F>
  void when_waiting(F f) {
    for (;;) {
      std::unique_lock lock(state.mutex);
      if (state.waiters.something_waits()) return f();
      lock.unlock();
      std::this_thread::yield();
    }
  }
  Result<u32> ask(const Request &request) {
    std::unique_lock lock(state.mutex);
    return state.claims.memory.ask(lock, request);
  }
};

}  // namespace

TEST_CASE("a request waits for the answer to its own ticket") {
  Client client;
  Result<u32> ticket = 0;
  std::thread asks([&] { ticket = client.ask({.bytes = 10}); });
  client.when_waiting([&] {
    client.state.claims.memory.settle(2, Fate::Granted);  // of no request
    client.state.claims.deny(0, "no device");             // of no connect()
    CHECK(client.state.waiters.something_waits());
    client.state.claims.deny(1, "no memory");
  });
  asks.join();
  REQUIRE_FALSE(ticket);
  CHECK(ticket.error().what == "no memory");
  CHECK_FALSE(client.state.waiters.something_waits());
}

TEST_CASE("a load that is granted makes the program exclusive at once, also without a Manager") {
  Client client;
  Result<u32> ticket = 0;
  std::thread asks([&] { ticket = client.ask({.bytes = 10, .load = true, .exclusive = true}); });
  client.when_waiting([&] {
    CHECK_FALSE(client.state.program.exclusive);
    client.state.claims.grant_all();
    CHECK(client.state.program.exclusive);
  });
  asks.join();
  CHECK(*ticket == 1);
}

TEST_CASE("a denial without a ticket is that of the GPU, and the next connect() asks again") {
  Client client;
  Place place;
  auto connect = [&] {
    std::unique_lock lock(client.state.mutex);
    place = client.state.claims.assignment.connect(lock, 5, false, managed::kCuda);
  };
  std::thread denied(connect);
  client.when_waiting([&] {
    CHECK(client.state.claims.assignment.asks_for_first());
    client.state.claims.deny(0, "no device");
  });
  denied.join();
  CHECK(place.denied == "no device");
  CHECK_FALSE(client.state.claims.assignment.asks_for_first());
  std::thread assigned(connect);
  client.when_waiting([&] { client.state.claims.assignment.assign("GPU-1"); });
  assigned.join();
  CHECK(place.gpu == "GPU-1");
  CHECK(client.state.program.memory.variables == 5);
}

TEST_CASE("the answer for a further API is not taken for one to the first") {
  Client client;
  client.state.program.apis = managed::kCuda;
  client.state.program.gpu = "GPU-1";
  Place place;
  std::thread asks([&] {
    std::unique_lock lock(client.state.mutex);
    place = client.state.claims.assignment.connect(lock, 0, false, managed::kOpenCl);
  });
  client.when_waiting([&] {
    CHECK_FALSE(client.state.claims.assignment.asks_for_first());
    client.state.claims.assignment.assign("GPU-2");
    CHECK(client.state.program.gpu == "GPU-1");
    client.state.claims.assignment.add_api(true);
  });
  asks.join();
  CHECK(place.gpu == "GPU-1");
  CHECK(client.state.program.manages(managed::kOpenCl));
}

TEST_CASE("memory out of a credit needs no answer until the credit is void") {
  Client client;
  MemoryAccount &memory = client.state.claims.memory;
  memory.grant_credit(100);
  Result<u32> first = client.ask({.bytes = 60});
  CHECK(*first == 1);  // without a wait
  memory.done(*first, 60, managed::kCuda);
  CHECK(client.state.program.memory.peak() == 60);
  memory.freed(0, managed::kCuda);
  Result<u32> again = client.ask({.bytes = 100});  // out of what was freed
  CHECK(*again == 2);
  memory.drop_credit();
  std::thread asks([&] { (void)client.ask({.bytes = 10}); });
  client.when_waiting([&] { memory.grant_all(); });
  asks.join();
}

}  // namespace ckpt::test

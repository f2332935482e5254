// SPDX-License-Identifier: Apache-2.0
#include "manager-client/requests.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::manager_client;

TEST_CASE("requests have tickets, and are pending until they are answered") {
  Requests requests;
  u32 first = requests.add({.bytes = 10});
  u32 second = requests.add({.bytes = 20});
  CHECK(first != 0);  // 0 is no ticket
  CHECK(first != second);
  requests.find(first)->answer.fate = Answer::Fate::Granted;
  CHECK_FALSE(requests.find(first)->pending());
  CHECK(requests.find(second)->pending());
  CHECK(requests.remove(second)->bytes == 20);
  CHECK_FALSE(requests.remove(second));
  CHECK(requests.find(second) == nullptr);
}

TEST_CASE("a request for memory and one for code are different messages") {
  namespace out = managed::to_manager;
  Request memory{.bytes = 10}, code{.bytes = 20, .load = true, .exclusive = true};
  CHECK(std::get<out::CudaMalloc>(memory.message(7)) == out::CudaMalloc{7, 10});
  CHECK(std::get<out::Load>(code.message(8)) == out::Load{8, 20, true});
}

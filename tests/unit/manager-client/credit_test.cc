// SPDX-License-Identifier: Apache-2.0
#include "manager-client/credit.h"

#include <doctest/doctest.h>

using namespace ckpt::manager_client;

TEST_CASE("allocations are taken out of a credit until it does not suffice") {
  Credit credit;
  CHECK_FALSE(credit.take(1));
  credit.grant(2500);
  CHECK(credit.take(1000));
  CHECK_FALSE(credit.returnable());  // the allocation is in flight
  CHECK_FALSE(credit.finish(1000));
  CHECK(credit.take(1500));
  CHECK_FALSE(credit.finish(1500));
  CHECK_FALSE(credit.take(1));
  CHECK(credit.returnable());
}

TEST_CASE("memory that was allocated out of a credit refills it") {
  Credit credit;
  CHECK_FALSE(credit.refill(100));  // there is no credit
  credit.grant(1000);
  CHECK_FALSE(credit.refill(100));  // nothing was allocated out of it
  REQUIRE(credit.take(1000));
  credit.finish(1000);
  CHECK(credit.refill(600));
  CHECK_FALSE(credit.refill(600));  // 200 bytes are other memory, so the Manager is told
  CHECK(credit.take(1000));
}

TEST_CASE("a revoked credit is returned when no allocation is in flight") {
  Credit credit;
  CHECK_FALSE(credit.revoke());  // it was returned before
  credit.grant(1000);
  REQUIRE(credit.take(400));
  CHECK_FALSE(credit.revoke());
  CHECK_FALSE(credit.take(1));
  CHECK(credit.finish(400));
  credit.returned();
  credit.grant(1000);
  CHECK(credit.revoke());
}

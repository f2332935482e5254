// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/device_numbers.h"

#include <doctest/doctest.h>

using namespace ckpt::remote::cuda;

TEST_CASE("without a table the program's devices are the driver's") {
  DeviceNumbers same;
  CHECK_FALSE(same.translates());
  CHECK(same.real(3) == 3);
  CHECK(same.programs(3) == 3);
}

TEST_CASE("numbers of devices are translated both ways, and others are no device") {
  DeviceNumbers numbers({5, 2});
  CHECK(numbers.count() == 2);
  CHECK(numbers.real(0) == 5);
  CHECK(numbers.real(1) == 2);
  CHECK(numbers.programs(2) == 1);
  for (int none : {2, 5, -1}) CHECK(numbers.real(none) == CU_DEVICE_INVALID);
  CHECK(numbers.programs(0) == CU_DEVICE_INVALID);
}

TEST_CASE("devices that are elsewhere have no number here") {
  DeviceNumbers some = DeviceNumbers({5, 2}).spread({-1, 1, -1, 0});
  CHECK(some.count() == 4);
  CHECK(some.real(1) == 2);
  CHECK(some.real(3) == 5);
  CHECK(some.programs(5) == 3);
  for (int none : {0, 2, 4}) CHECK(some.real(none) == CU_DEVICE_INVALID);
}

TEST_CASE("each line for a device says which parameter is its number") {
  auto check = [](std::string_view symbol) {
    CAPTURE(symbol);
    bool of_device = symbol.starts_with("cuDevice") && symbol != "cuDeviceGetCount";
    CHECK((!of_device || device_parameter(symbol) >= 0 || device_result(symbol) >= 0));
  };
  for (const char *symbol : {"cuKernelGetAttribute", "cuKernelSetAttribute"})
    CHECK(device_parameter(symbol) == 3);
  CHECK(device_parameter("cuKernelSetCacheConfig") == 2);
#define ASKED(n, symbol, type) check(#symbol);
#include "remote/cuda/cuda.api"
}

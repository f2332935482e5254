// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "libckpt-cuda/guest/arguments.h"

using namespace ckpt;
using namespace ckpt::cuda::guest;

namespace {

Kernel &two_parameters() {
  static Kernel kernel;
  kernel.facts.takes_slice = true;
  kernel.facts.parameters = 2;
  kernel.facts.slice_offset = 12;
  return kernel;
}

slicing::SliceArgument read(const void *from) {
  slicing::SliceArgument slice;
  std::memcpy(&slice, from, sizeof slice);
  return slice;
}

}  // namespace

TEST_CASE("pointers to arguments get one more behind them") {
  int a = 1, b = 2;
  void *given[] = {&a, &b};
  Arguments arguments(two_parameters(), given, nullptr, {5, 6, 7});
  arguments.set_base({1, 2, 3});
  CHECK(arguments.params()[0] == &a);
  CHECK(arguments.params()[1] == &b);
  CHECK(read(arguments.params()[2]).base == slicing::Dim{1, 2, 3});
  CHECK(read(arguments.params()[2]).grid == slicing::Dim{5, 6, 7});
}

TEST_CASE("a buffer of arguments is copied and grows, whatever size the program gives") {
  unsigned char given[100];
  std::memset(given, 9, sizeof given);
  for (size_t bytes : {size_t{9}, size_t{12}, sizeof given}) {
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, given,
                     CU_LAUNCH_PARAM_END};
    Arguments arguments(two_parameters(), nullptr, extra, {5, 6, 7});
    arguments.set_base({1, 2, 3});
    REQUIRE(arguments.extra()[0] == CU_LAUNCH_PARAM_BUFFER_POINTER);
    auto *buffer = static_cast<unsigned char *>(arguments.extra()[1]);
    CHECK(*static_cast<size_t *>(arguments.extra()[3]) == 36);
    CHECK(buffer[8] == 9);
    CHECK(read(buffer + 12).base == slicing::Dim{1, 2, 3});
  }
}

TEST_CASE("a launch without arguments, where some are needed, is left to the driver to refuse") {
  Arguments arguments(two_parameters(), nullptr, nullptr, {1, 1, 1});
  CHECK(arguments.params() == nullptr);
  CHECK(arguments.extra() == nullptr);
}

// SPDX-License-Identifier: Apache-2.0
#include "common/base/io.h"

#include <sys/mman.h>

#include <array>

#include <doctest/doctest.h>

#include "common/base/unique_fd.h"

using namespace ckpt;

TEST_CASE("a file is written and read at an offset, and short only at its end") {
  UniqueFd file(::memfd_create("io", MFD_CLOEXEC));
  REQUIRE(write_all_at(file.get(), view("hello"), 3));
  std::array<std::byte, 8> into{};
  Result<size_t> n = read_at(file.get(), into, 4);
  REQUIRE(n);
  CHECK(*n == 4);
  CHECK(text({into.data(), *n}) == "ello");
}

TEST_CASE("read_exactly fails at end of file, and names both counts") {
  UniqueFd file(::memfd_create("io", MFD_CLOEXEC));
  REQUIRE(write_all_at(file.get(), view("abc"), 0));
  char into[4];
  Result<> r = read_exactly(file.get(), into, 4);
  REQUIRE(!r);
  CHECK(r.error().what == "end of file after 3 of 4 bytes");
}

TEST_CASE("a write that fails is an error") { CHECK(!write_all(-1, view("x"))); }

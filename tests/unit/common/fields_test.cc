// SPDX-License-Identifier: Apache-2.0
#include "common/base/fields.h"

#include <doctest/doctest.h>

#include <limits>

using namespace ckpt;

namespace {

constexpr u64 kMost = std::numeric_limits<u64>::max();

enum class Colour : u8 { Red, Green };

}  // namespace

TEST_CASE("a range lies within the whole, whatever its sum would be") {
  CHECK(lies_within(0, 0, 0));
  CHECK(lies_within(4, 4, 8));
  CHECK_FALSE(lies_within(4, 5, 8));
  CHECK_FALSE(lies_within(9, 0, 8));
  CHECK_FALSE(lies_within(kMost - 99, 107, 8));  // wraps to 7
  CHECK_FALSE(lies_within(0, kMost, 8));
}

TEST_CASE("a count is no larger than what follows it has room for") {
  Writer w;
  w.put(u32{3}).put(u64{1}).put(u64{2}).put(u64{3});
  Reader three(w.bytes()), few(w.bytes()), large(w.bytes());
  CHECK(read_count(three, sizeof(u64)) == 3);
  CHECK(three.ok());
  CHECK(read_count(few, sizeof(u64), 2) == 0);
  CHECK_FALSE(few.ok());
  CHECK(read_count(large, sizeof(u64) + 1) == 0);
  CHECK_FALSE(large.ok());
  Reader empty((ByteView()));
  CHECK(read_count(empty, 1) == 0);
  CHECK_FALSE(empty.ok());
}

TEST_CASE("after a field that cannot be right, all further ones read as zero") {
  Writer w;
  w.put(u64{8}).put(u64{1}).put(u32{7});
  Reader r(w.bytes());
  CHECK(read_range(r, 8).bytes == 0);
  CHECK(r.get<u32>() == 0);
  CHECK_FALSE(r.ok());
  CHECK_FALSE(r.done());
}

TEST_CASE("a list of texts ends with the message") {
  Writer w;
  w.put(u32{2}).str("a").str("b");
  Reader r(w.bytes());
  CHECK(read_texts(r) == std::vector<std::string>{"a", "b"});
  CHECK(r.done());
  Writer more;
  more.put(u32{0xffffffff}).str("a");
  Reader wrong(more.bytes());
  CHECK(read_texts(wrong).empty());
  CHECK_FALSE(wrong.ok());
}

TEST_CASE("a choice is one of those that exist") {
  Writer w;
  w.put(Colour::Green).put(u8{2});
  Reader r(w.bytes());
  CHECK(read_choice(r, Colour::Green) == Colour::Green);
  CHECK(read_choice(r, Colour::Green) == Colour::Red);
  CHECK_FALSE(r.ok());
}

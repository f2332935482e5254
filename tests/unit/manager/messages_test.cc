// SPDX-License-Identifier: Apache-2.0
#include "common/managed/messages.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::managed;

namespace {

template <class Variant>
Result<Variant> decode(u16 number, ByteView body) {
  if constexpr (std::is_same_v<Variant, ToManager>)
    return decode_to_manager(number, body);
  else
    return decode_to_program(number, body);
}

// Decodes to the same message; one byte less or more is an error.
template <class Variant, class M>
void check_one(const M &message) {
  Variant v(message);
  Writer w = encode(v);
  INFO(name_of(v));
  Result<Variant> back = decode<Variant>(number_of(v), w.bytes());
  REQUIRE(back.has_value());
  CHECK(std::get<M>(*back) == message);
  for (size_t n = 0; n < w.size(); n++)
    CHECK_FALSE(decode<Variant>(number_of(v), w.bytes().first(n)).has_value());
  w.put<u8>(0);
  CHECK_FALSE(decode<Variant>(number_of(v), w.bytes()).has_value());
}

}  // namespace

TEST_CASE("every message decodes to what was encoded") {
#define FIELD(type, name)
#define TO_MANAGER(Name, number, fields) check_one<ToManager>(to_manager::Name{});
#define TO_PROGRAM(Name, number, fields) check_one<ToProgram>(to_program::Name{});
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
#undef FIELD
  check_one<ToManager>(to_manager::Connect{77, true});
  check_one<ToManager>(to_manager::CudaMalloc{3, 1ull << 40});
  check_one<ToManager>(to_manager::Join{1, 42, "a program", -3, Standing::Suspended, "GPU-1", 5, 6,
                                        7, true, true, 8, true, 9});
  check_one<ToProgram>(to_program::OutOfMemory{9, "why"});
  check_one<ToProgram>(to_program::Refused{"what", "hint"});
}

TEST_CASE("a malformed message is refused with the name of the bad field") {
  CHECK_FALSE(decode_to_manager(0, {}).has_value());
  CHECK_FALSE(decode_to_manager(999, {}).has_value());
  CHECK_FALSE(decode_to_program(0, {}).has_value());
  // true is 1, and nothing else.
  Writer w;
  w.put<u64>(1).put<u8>(2);
  Result<ToManager> r = decode_to_manager(to_manager::Connect::kNumber, w.bytes());
  REQUIRE_FALSE(r.has_value());
  CHECK(r.error().what == "the message Connect is malformed at \"exclusive\"");
  // A string that is longer than the message.
  Writer long_string;
  long_string.put<u32>(0xffffffff);
  CHECK_FALSE(decode_to_manager(to_manager::Failed::kNumber, long_string.bytes()).has_value());
  // A standing that does not exist.
  to_manager::Join join;
  Writer j = encode(ToManager(join));
  Bytes bytes(j.bytes().begin(), j.bytes().end());
  bytes[4 + 4 + 4 + 4] = std::byte{9};
  CHECK_FALSE(decode_to_manager(to_manager::Join::kNumber, bytes).has_value());
}

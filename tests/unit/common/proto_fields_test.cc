// SPDX-License-Identifier: Apache-2.0
#include "common/base/proto_fields.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

using namespace ckpt;

namespace {

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes b;
  for (unsigned v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

bool is_sound(std::initializer_list<unsigned> message) {
  Bytes b = bytes(message);
  ProtoFields fields(b);
  while (fields.next()) {
  }
  return fields.sound();
}

}  // namespace

TEST_CASE("the fields of a message come in their order, with their bytes") {
  // Field 1 = 300, field 2 = two bytes, field 3 = eight bytes, field 4 = four.
  Bytes message =
      bytes({0x08, 0xac, 0x02, 0x12, 2, 7, 8, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 9, 9, 9, 9});
  ProtoFields fields(message);
  std::vector<u32> numbers, types;
  for (u32 i = 0; std::optional<ProtoField> f = fields.next(); i++) {
    numbers.push_back(f->number);
    types.push_back(f->type);
    if (i == 0) CHECK(f->value == 300);
    if (i == 1) CHECK(f->bytes.size() == 2);
    if (i == 2) CHECK(f->bytes.size() == 8);
  }
  CHECK(fields.sound());
  CHECK(numbers == std::vector<u32>{1, 2, 3, 4});
  CHECK(types == std::vector<u32>{0, 2, 1, 5});
}

TEST_CASE("what is cut off, too long or a group is unsound") {
  CHECK(is_sound({}));
  CHECK(!is_sound({0x08}));           // a number without bytes
  CHECK(!is_sound({0x12, 3, 1, 2}));  // bytes that are not there
  CHECK(!is_sound({0x0b, 0x0c}));     // a group
  CHECK(!is_sound({0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}));
}

TEST_CASE("a tag of more than 32 bits is unsound: some decoders take it for another field") {
  CHECK(is_sound({0x88, 0x80, 0x80, 0x80, 0x00, 1}));   // field 1, written in five bytes
  CHECK(!is_sound({0x88, 0x80, 0x80, 0x80, 0x10, 1}));  // field 1 and the bit 32
  CHECK(!is_sound({0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 1}));
}

TEST_CASE("a packed list has numbers of 32 bits") {
  Bytes good = bytes({1, 0xff, 0xff, 0xff, 0xff, 0x0f}),
        large = bytes({0xff, 0xff, 0xff, 0xff, 0x1f});
  ProtoFields list(good);
  CHECK(list.next_in_list() == 1u);
  CHECK(list.next_in_list() == ~u32{0});
  CHECK(!list.next_in_list());
  CHECK(list.sound());
  ProtoFields wrong(large);
  CHECK(!wrong.next_in_list());
  CHECK(!wrong.sound());
}

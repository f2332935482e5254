// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu_file.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

namespace ckpt::test {
using namespace tools;
namespace {

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes b;
  for (unsigned v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

// Two magic numbers, and one message: field 1 = 300, field 2 = { field 3 = 5 }, field 4 = 4 bytes.
const Bytes kFile = bytes(
    {1, 1, 1, 1, 2, 2, 2, 2, 12, 0, 0, 0, 0x08, 0xac, 0x02, 0x12, 2, 0x18, 5, 0x25, 9, 9, 9, 9});

TEST_CASE("a file that nothing is changed in stays as it was") {
  CHECK(edit_criu_file(kFile, [](ProtoMessage &) {}) == kFile);
}

TEST_CASE("fields are found, and lengths follow a change") {
  Bytes edited = edit_criu_file(kFile, [](ProtoMessage &m) {
    CHECK(m.number(1) == 300);
    CHECK(m.number(7) == 0);
    CHECK(m.bytes(2).size() == 2);
    m.edit_each(2, [](ProtoMessage &inner) { inner.set_number(3, 0x4022); });
  });
  CHECK(edited == bytes({1,    1,    1,    1, 2,    2,    2,    2,    14,   0, 0, 0, 0x08,
                         0xac, 0x02, 0x12, 4, 0x18, 0xa2, 0x80, 0x01, 0x25, 9, 9, 9, 9}));
}

TEST_CASE("an embedded message becomes several, or none") {
  auto twice = [](ProtoMessage m) { return std::vector{m, m}; };
  Bytes more = edit_criu_file(kFile, [&](ProtoMessage &m) {
    m.set_bytes(4, bytes({1}));  // four bytes of another type stay
    m.replace_each(2, twice);
  });
  CHECK(more == bytes({1,    1,    1, 1,    2, 2,    2, 2,    16, 0,    0, 0, 0x08, 0xac,
                       0x02, 0x12, 2, 0x18, 5, 0x12, 2, 0x18, 5,  0x25, 9, 9, 9,    9}));
  Bytes less = edit_criu_file(kFile, [](ProtoMessage &m) {
    m.replace_each(2, [](const ProtoMessage &) { return std::vector<ProtoMessage>(); });
  });
  CHECK(less == bytes({1, 1, 1, 1, 2, 2, 2, 2, 8, 0, 0, 0, 0x08, 0xac, 0x02, 0x25, 9, 9, 9, 9}));
}

TEST_CASE("a file that cannot be understood stays as it was") {
  auto change_all = [](ProtoMessage &m) { m.set_number(1, 1); };
  for (size_t size = 9; size < kFile.size(); size++) {
    CAPTURE(size);
    Bytes cut(kFile.begin(), kFile.begin() + static_cast<long>(size));
    CHECK(edit_criu_file(cut, change_all) == cut);
  }
  Bytes endless = bytes({0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 0xff});
  CHECK(edit_criu_file(endless, change_all) == endless);
  CHECK(edit_criu_file(bytes({1, 2, 3}), change_all).size() == 3);
  // The number of its field has 33 bits; the lower 32 say "1".
  Bytes large = bytes({0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x88, 0x80, 0x80, 0x80, 0x80, 1, 9});
  CHECK(edit_criu_file(large, change_all) == large);
}

}  // namespace
}  // namespace ckpt::test

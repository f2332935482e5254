// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/payload.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::ocl;

TEST_CASE("a payload has the bytes that a Writer writes, also where it needs the heap") {
  Payload payload;
  Writer writer;
  for (u32 i = 0; i < 3000; i++) {
    payload.put(i).put(u8{7}).blob(view("word"));
    writer.put(i).put(u8{7}).blob(view("word"));
    if (i % 500 > 1) continue;
    CHECK(std::ranges::equal(payload.bytes(), writer.bytes()));
    ByteView whole = payload.bytes();
    CHECK(std::ranges::equal(payload.copy(), whole));
  }
  std::memset(payload.take_room(9000), 5, 9000);
  writer.raw(Bytes(9000, std::byte{5}).data(), 9000);
  CHECK(std::ranges::equal(payload.bytes(), writer.bytes()));
}

TEST_CASE("the largest write in a command needs no memory of the heap") {
  Payload payload;
  const std::byte *begin = payload.bytes().data();
  std::memset(payload.take_room(kMaxInlineWrite + 128), 0, kMaxInlineWrite + 128);
  CHECK(payload.bytes().data() == begin);
}

// SPDX-License-Identifier: Apache-2.0
#include "common/base/bytes.h"

#include <doctest/doctest.h>

using namespace ckpt;

TEST_CASE("a Reader reads what a Writer has written") {
  Writer w;
  w.put<u8>(7).put<u32>(0xdeadbeef).put(2.5).str("name").blob(view("xyz"));
  Bytes b = w.take();
  Reader r(b);
  CHECK(r.get<u8>() == 7);
  CHECK(r.get<u32>() == 0xdeadbeef);
  CHECK(r.get<double>() == 2.5);
  CHECK(r.str() == "name");
  CHECK(text(r.blob()) == "xyz");
  CHECK(r.done());
}

TEST_CASE("a Reader never reads past the end, and stays failed") {
  Writer w;
  w.put<u32>(1000).put<u8>(1);  // a blob that announces more than there is
  Bytes b = w.take();
  Reader r(b);
  CHECK(r.blob().empty());
  CHECK_FALSE(r.ok());
  CHECK(r.get<u8>() == 0);
  CHECK_FALSE(r.done());
}

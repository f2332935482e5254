// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/transfers.h"

#include <doctest/doctest.h>

#include "ring/table.h"

using namespace ckpt;
using namespace ckpt::remote;
using ocl::Op;

namespace {

ocl::CommandHeader header(Op op) { return {0, static_cast<u16>(op), 0, 0}; }

Bytes words(std::initializer_list<u64> all) {
  Writer w;
  for (u64 v : all) w.put(v);
  return w.take();
}

}  // namespace

TEST_CASE("a transfer of a buffer says its place and size") {
  Transfers t;
  auto read = t.of(header(Op::Read), words({1, 2, 64, 4096, 8192, 0}));
  REQUIRE(read);
  CHECK_FALSE(read->to_device);
  CHECK(read->place == 8192);
  CHECK(read->bytes == 4096);
  CHECK(t.of(header(Op::Write), words({1, 2, 64, 4096, 8192, 0}))->to_device);
  CHECK_FALSE(t.of(header(Op::Write), words({1, 2, 64, 4096, ocl::kInline, 0})));
}

TEST_CASE("a rectangle is as large as its region, and one that overflows is none") {
  Transfers t;
  auto rect = t.of(header(Op::ReadRect), words({1, 2, 0, 0, 0, 16, 4, 2, 64, 256, 512, 0}));
  REQUIRE(rect);
  CHECK(rect->bytes == 128);
  CHECK(rect->place == 512);
  u64 huge = 1ull << 40;
  CHECK_FALSE(t.of(header(Op::ReadRect), words({1, 2, 0, 0, 0, huge, huge, 2, 64, 256, 512, 0})));
}

TEST_CASE("the size of an image's elements comes from the reply that made it") {
  Transfers t;
  Bytes write = words({1, 7, 0, 0, 0, 10, 10, 1, 4096, 0});
  CHECK_FALSE(t.of(header(Op::WriteImage), write));
  t.image_made(7, words({16}));
  CHECK(t.of(header(Op::WriteImage), write)->bytes == 1600);
  Writer release;
  release.put(ocl::Kind::Mem).put(u64{7});
  t.released(release.bytes());
  CHECK_FALSE(t.of(header(Op::WriteImage), write));
}

TEST_CASE("contents go through the ring's staging or the tool's") {
  Transfers t;
  Bytes contents = words({5, 0, 1 << 20, 2 << 20});
  contents.push_back(std::byte{1});
  auto c = t.of(header(Op::WriteContents), contents);
  REQUIRE(c);
  CHECK(c->in_tool_staging);
  CHECK(c->place == 2 << 20);
}

TEST_CASE("a payload that ends early is no transfer") {
  Transfers t;
  for (Op op : {Op::Read, Op::WriteRect, Op::ReadImage, Op::ReadContents}) {
    Bytes all = words({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    for (size_t n = 0; n < 32; n++) CHECK_FALSE(t.of(header(op), ByteView(all).first(n)));
  }
}

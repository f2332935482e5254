// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/parameter_places.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

bool accepts(std::initializer_list<ByteRange> places, u32 count) {
  Writer w;
  w.put(count);
  for (const ByteRange &p : places) w.put(p.offset).put(p.bytes);
  Reader r(w.bytes());
  return read_parameter_places(r).size() == places.size() && r.done();
}
bool accepts(std::initializer_list<ByteRange> places) {
  return accepts(places, static_cast<u32>(places.size()));
}

}  // namespace

TEST_CASE("places of parameters are in order and apart") {
  CHECK(accepts({}));
  CHECK(accepts({{0, 8}, {8, 4}, {16, 8}}));
  CHECK_FALSE(accepts({{0, 8}, {4, 4}}));
  CHECK_FALSE(accepts({{8, 4}, {0, 8}}));
}

TEST_CASE("places of parameters are no more than a kernel may have") {
  CHECK(accepts({{0, 32764}}));
  CHECK_FALSE(accepts({{0, 8}, {8, 32768}}));
  CHECK_FALSE(accepts({{~u64{0} - 0xfffff, 0x100008}}));  // the end wraps to 8
  CHECK_FALSE(accepts({{0, ~u64{0}}}));
}

TEST_CASE("a number of parameters that the message has no room for is refused") {
  CHECK_FALSE(accepts({{0, 8}}, 0xffffffff));
}

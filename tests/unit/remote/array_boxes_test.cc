// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/array_boxes.h"

#include <doctest/doctest.h>

#include <vector>

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

CUDA_ARRAY3D_DESCRIPTOR described(size_t width, size_t height, size_t depth) {
  return {width, height, depth, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0};
}

// The bytes of a box, by their offsets.
void append(const api::ArrayShape &a, const Box &b, std::vector<u64> &all) {
  CHECK(b.array == 9);
  CHECK(b.pitch == b.width);
  CHECK(b.slice == b.width * b.height);
  for (u64 z = b.z; z < b.z + b.depth; z++)
    for (u64 y = b.y; y < b.y + b.height; y++)
      for (u64 x = b.address; x < b.address + b.width; x++)
        all.push_back((z * a.rows + y) * a.row_bytes + x);
}

}  // namespace

TEST_CASE("any bytes of an array are a few boxes, in their order") {
  for (auto d : {described(5, 0, 0), described(5, 3, 0), described(5, 0, 4), described(3, 2, 4)}) {
    api::ArrayShape a(d);
    CHECK(a.bytes() == 4 * d.Width * std::max<u64>(d.Height, 1) * std::max<u64>(d.Depth, 1));
    for (u64 begin = 0; begin < a.bytes(); begin++)
      for (u64 end = begin; end <= a.bytes(); end++) {
        std::vector<u64> found;
        int boxes = 0;
        for_each_box(a, 9, begin, end, [&](const Box &b) { append(a, b, found), boxes++; });
        std::vector<u64> wanted;
        for (u64 i = begin; i < end; i++) wanted.push_back(i);
        REQUIRE(found == wanted);
        REQUIRE(boxes <= 5);
      }
  }
}

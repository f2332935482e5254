// SPDX-License-Identifier: Apache-2.0
#include "slicing/opencl_source.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ckpt;
using namespace ckpt::slicing;

TEST_CASE("the source stays as it is between declarations and check, and begins with line 1") {
  const std::string source = "__kernel void k(__global int *o) { o[get_group_id(0)] = 1; }\n";
  std::string sliced = sliced_source(source, 0);
  CHECK(sliced.find("#line 1\n" + source + "\n#define ckpt_slice") != std::string::npos);
}

// The declarations use the built-in functions, so every macro comes after all of them.
TEST_CASE("no declaration uses a macro of the pass") {
  std::string sliced = sliced_source("", 0);
  size_t first_macro = sliced.find("#define get_");
  CHECK(sliced.rfind('}') < first_macro);
  CHECK(std::ranges::count(sliced, '{') == std::ranges::count(sliced, '}'));
}

TEST_CASE("only memory that others write while a kernel runs lets groups wait") {
  CHECK_FALSE(may_wait("__kernel void k(__global int *o) { barrier(CLK_LOCAL_MEM_FENCE); }"));
  for (const char *text : {"volatile __global int *p", "atomic_add(p, 1)", "atom_inc(p)",
                           "read_mem_fence(1)", "barrier(CLK_GLOBAL_MEM_FENCE)"})
    CHECK(may_wait(text));
}

TEST_CASE("a slice's offset has the size of the launch above its first group") {
  CHECK(slice_offset({1, {64}}, {})[0] == u64{64} << 32);
  NdRange largest{1, {kMostWorkItems, 1, 1}};
  CHECK(fits(largest));
  CHECK(slice_offset(largest, {0xffffffff})[0] == (kMostWorkItems << 32 | 0xffffffff));
  largest.items[0]++;
  CHECK_FALSE(fits(largest));
}

TEST_CASE("slices of a launch with an offset have a form of their own, and three dimensions") {
  NdRange range{2, {64, 64, 1}, {8, 8, 1}};
  CHECK(form_of(range) == 0);
  CHECK(slice_dims(range) == 2);
  range.offset = {0, 3, 0};
  CHECK(form_of(range) == 2);
  CHECK(slice_dims(range) == 3);
  CHECK(sliced_source("", 2).starts_with("#define CKPT_SLICE_FORM 2\n"));
}

TEST_CASE("an offset is in the dimensions that the program does not use") {
  NdRange line{1, {64, 1, 1}, {8, 1, 1}, {u64{1} << 62, 0, 0}};
  CHECK(fits(line));
  CHECK(slice_offset(line, {3}) == std::array<u64, 3>{u64{64} << 32 | 3, u64{1} << 62, 0});
  line.offset[0] *= 2;
  CHECK_FALSE(fits(line));
  NdRange plane{2, {64, 32, 1}, {8, 8, 1}, {7, 0x7fffffff, 0}};
  CHECK(fits(plane));
  CHECK(slice_offset(plane, {3, 1}) ==
        std::array<u64, 3>{u64{64} << 32 | 3, u64{32} << 32 | 1, u64{0x7fffffff} << 32 | 7});
  plane.offset[0] = 0x80000000;
  CHECK_FALSE(fits(plane));
}

// 8 groups need 4 bits: offset << 13 | groups << 9 | first group << 5 | 4.
TEST_CASE("in three dimensions an offset is packed with the groups, if there is room") {
  NdRange range{3, {64, 64, 64}, {8, 8, 8}, {9, 0, (u64{1} << 50) - 1}};
  CHECK(fits(range));
  CHECK(slice_offset(range, {7, 2, 1}) ==
        std::array<u64, 3>{9 << 13 | 8 << 9 | 7 << 5 | 4, 8 << 9 | 2 << 5 | 4,
                           ((u64{1} << 50) - 1) << 13 | 8 << 9 | 1 << 5 | 4});
  range.offset[2]++;
  CHECK_FALSE(fits(range));
  CHECK(fits({3, {(1 << 29) - 1, 1, 1}, {1, 1, 1}, {0, 1, 0}}));
  CHECK_FALSE(fits({3, {1 << 29, 1, 1}, {1, 1, 1}, {0, 1, 0}}));
}

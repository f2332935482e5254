// SPDX-License-Identifier: Apache-2.0
#include "slicing/opencl_source.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ckpt;
using namespace ckpt::slicing;

TEST_CASE("the source stays as it is between declarations and check, and begins with line 1") {
  const std::string source = "__kernel void k(__global int *o) { o[get_group_id(0)] = 1; }\n";
  std::string sliced = sliced_source(source);
  CHECK(sliced.find("#line 1\n" + source + "\n#define ckpt_slice") != std::string::npos);
}

// The declarations use the built-in functions, so every macro comes after all of them.
TEST_CASE("no declaration uses a macro of the pass") {
  std::string sliced = sliced_source("");
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
  CHECK(slice_offset(0, 64) == u64{64} << 32);
  CHECK((slice_offset(0xffffffff, kMostWorkItems) >> 32) == kMostWorkItems);
  CHECK((slice_offset(0xffffffff, kMostWorkItems) & 0xffffffff) == 0xffffffff);
}

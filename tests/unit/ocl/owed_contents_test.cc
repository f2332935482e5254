// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/owed_contents.h"

#include <doctest/doctest.h>

#include "agent/protocol.h"
#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/proxy/serve/images.h"

// No piece of these tests is of an image.
namespace ckpt::ocl {
bool is_image(cl_mem) { return false; }
cl_int move_image(cl_command_queue, cl_mem, bool, u64, u64, std::byte *) {
  return CL_INVALID_MEM_OBJECT;
}
}  // namespace ckpt::ocl

using namespace ckpt;
using ocl::OwedContents;

TEST_CASE("the copying thread may have finished before begin() returns") {
  for (int i = 0; i < 2000; i++) {
    auto file = make_memfd("test", 4096);
    auto ends = socket_pair();
    REQUIRE(file);
    REQUIRE(ends);
    OwedContents owed;
    REQUIRE(owed.open(file->get(), 4096) == CL_SUCCESS);
    REQUIRE(owed.begin(ends->first.get()) == CL_SUCCESS);
    owed.wait();
    // The next checkpoint.
    REQUIRE(owed.open(file->get(), 4096) == CL_SUCCESS);
    REQUIRE(owed.begin(ends->first.get()) == CL_SUCCESS);
  }
}

TEST_CASE("contents of which the description was refused are not begun") {
  auto file = make_memfd("test", 4096);
  auto ends = socket_pair();
  REQUIRE(file);
  REQUIRE(ends);
  OwedContents owed;
  REQUIRE(owed.open(file->get(), 4096) == CL_SUCCESS);
  CHECK(owed.add({.bytes = 5000}) == CL_INVALID_VALUE);
  CHECK(owed.begin(ends->first.get()) == CL_INVALID_VALUE);
  CHECK(owed.open(-1, 4096) == CL_INVALID_VALUE);
}

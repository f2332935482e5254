// SPDX-License-Identifier: Apache-2.0
//
// Counts of copied bytes in shared memory.
#include "common/ipc/copy_counts.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fmt/format.h>
#include "common/ipc/shared_memory.h"

using namespace ckpt;

namespace {

std::string path_of(const UniqueFd &fd) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), fd.get());
}

}  // namespace

TEST_CASE("counts are shared with the process that made their memory") {
  auto fd = make_memfd("counts", sizeof(CopyCounts));
  REQUIRE(fd);
  CHECK(map_copy_counts(path_of(*fd).c_str()) == nullptr);  // no magic number
  CopyCounts fresh;
  REQUIRE(::pwrite(fd->get(), &fresh, sizeof fresh, 0) == sizeof fresh);
  CopyCounts *counts = map_copy_counts(path_of(*fd).c_str());
  REQUIRE(counts != nullptr);
  counts->to_device += 5;
  counts->to_host += 7;
  u64 read[3] = {};
  REQUIRE(::pread(fd->get(), read, sizeof read, 0) == sizeof read);
  CHECK(read[1] == 5);
  CHECK(read[2] == 7);
  ::munmap(counts, sizeof *counts);
}

TEST_CASE("nothing else is mapped for counts") {
  auto longer = make_memfd("longer", sizeof(CopyCounts) + 1);
  REQUIRE(longer);
  CopyCounts fresh;
  REQUIRE(::pwrite(longer->get(), &fresh, sizeof fresh, 0) == sizeof fresh);
  CHECK(map_copy_counts(path_of(*longer).c_str()) == nullptr);
  CHECK(map_copy_counts("/dev/null") == nullptr);
  CHECK(map_copy_counts("/nonexistent/counts") == nullptr);
}

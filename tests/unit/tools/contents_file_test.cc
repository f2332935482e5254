// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr u64 kBytes = 1 << 20;

// A file of kBytes bytes, of which the first `written` are in memory.
UniqueFd file(u64 written, int seals) {
  UniqueFd fd(::memfd_create("contents", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::vector<char> bytes(written, 'x');
  REQUIRE(::ftruncate(fd.get(), kBytes) == 0);
  REQUIRE(::pwrite(fd.get(), bytes.data(), written, 0) == static_cast<ssize_t>(written));
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

}  // namespace

TEST_CASE("an agent's file of contents is read in place") {
  Result<std::shared_ptr<ContentsFile>> f = ContentsFile::map(file(kBytes, F_SEAL_SHRINK), kBytes);
  REQUIRE(f);
  Result<ByteView> part = (*f)->part(4096, 8192);
  REQUIRE(part);
  CHECK((*part)[8191] == std::byte{'x'});
  CHECK(!(*f)->part(kBytes, 1));
  CHECK(!(*f)->part(~u64{0}, 2));
}

TEST_CASE("a file that could shrink, is too short or has holes is refused") {
  CHECK(!ContentsFile::map(file(kBytes, 0), kBytes));
  CHECK(!ContentsFile::map(file(kBytes, F_SEAL_SHRINK), kBytes + 1));
  CHECK(!ContentsFile::map(UniqueFd(::open("/proc/self/exe", O_RDONLY)), 4096));
  Result<std::shared_ptr<ContentsFile>> f = ContentsFile::map(file(8192, F_SEAL_SHRINK), kBytes);
  REQUIRE(f);
  CHECK((*f)->part(0, 8192));
  CHECK(!(*f)->part(0, 1));
}

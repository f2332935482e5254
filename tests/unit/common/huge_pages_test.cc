// SPDX-License-Identifier: Apache-2.0
#include "common/base/huge_pages.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

using namespace ckpt;

namespace {

constexpr size_t kPageBytes = 4096, kHuge = kHugePageBytes;

// A file in memory, mapped at a multiple of the size of a huge page.
struct File {
  explicit File(size_t bytes) : bytes(bytes) {
    fd = UniqueFd(memfd_create("test", MFD_CLOEXEC));
    REQUIRE(ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    all = mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    u64 aligned = (reinterpret_cast<u64>(all) + kHuge - 1) / kHuge * kHuge;
    void *p = mmap(reinterpret_cast<void *>(aligned), bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, fd.get(), 0);
    REQUIRE(p != MAP_FAILED);
    memory = {static_cast<std::byte *>(p), bytes};
  }
  ~File() { munmap(all, bytes + kHuge); }
  size_t bytes;
  UniqueFd fd;
  void *all = nullptr;
  std::span<std::byte> memory;
};

size_t pages_of(std::span<std::byte> memory) {
  std::vector<unsigned char> resident(memory.size() / kPageBytes);
  REQUIRE(mincore(memory.data(), memory.size(), resident.data()) == 0);
  return static_cast<size_t>(
      std::ranges::count_if(resident, [](unsigned char c) { return (c & 1) != 0; }));
}

}  // namespace

TEST_CASE("memory gets all pages of a range, and none beyond it") {
  File f(4 * kHuge);
  REQUIRE(populate(f.memory.subspan(kHuge + kPageBytes, 2 * kHuge)));
  CHECK(pages_of(f.memory.subspan(kHuge + kPageBytes, 2 * kHuge)) == 2 * kHuge / kPageBytes);
  CHECK(pages_of(f.memory.first(kHuge)) == 0);
  CHECK(pages_of(f.memory.last(kHuge - kPageBytes)) == 0);
}

TEST_CASE("memory that has some of its pages keeps their contents") {
  File f(2 * kHuge);
  for (size_t at = kPageBytes; at < f.bytes; at += 7 * kPageBytes)
    std::memset(f.memory.data() + at, static_cast<int>(at / kPageBytes % 255 + 1), kPageBytes);
  std::vector<std::byte> before(f.memory.begin(), f.memory.end());
  File g(2 * kHuge);
  for (size_t at = kPageBytes; at < f.bytes; at += 7 * kPageBytes)
    std::memcpy(g.memory.data() + at, f.memory.data() + at, kPageBytes);
  REQUIRE(populate(g.memory));
  CHECK(pages_of(g.memory) == g.bytes / kPageBytes);
  CHECK(std::ranges::equal(before, g.memory));
}

TEST_CASE("the pages of a file in memory are huge where the kernel makes them on request") {
  File probe(kHuge), f(2 * kHuge);
  probe.memory[0] = std::byte{1};
  constexpr int kCollapse = 25;
  if (madvise(probe.memory.data(), kHuge, kCollapse) != 0) {
    MESSAGE("SKIPPED: huge pages (", std::strerror(errno), ")");
    return;
  }
  REQUIRE(populate(f.memory));
  // A second mapping of a huge page needs no fault for the 511 pages behind the first.
  void *again =
      mmap(f.memory.data(), f.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f.fd.get(), 0);
  REQUIRE(again == f.memory.data());
  UniqueFd maps(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  REQUIRE(maps);
  f.memory[0] = std::byte{1};
  u64 last = 0;
  u64 number = reinterpret_cast<u64>(f.memory.data()) / kPageBytes + kHuge / kPageBytes - 1;
  REQUIRE(pread(maps.get(), &last, sizeof last, static_cast<off_t>(number * sizeof last)) == 8);
  CHECK((last >> 63) == 1);
}

TEST_CASE("pages that the kernel refuses are an error") {
  File f(kHuge);
  REQUIRE(ftruncate(f.fd.get(), 0) == 0);  // nothing can be behind the end of the file
  CHECK_FALSE(populate(f.memory));
}

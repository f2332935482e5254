// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/pieces_ahead.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

using namespace ckpt;
using namespace ckpt::agent;

namespace {

// Counts what is page-locked.
class Locks final : public PageLocker {
 public:
  void lock_pages(std::span<std::byte>) override { ++locked; }
  void unlock_pages(std::span<std::byte>) override { ++unlocked; }

  std::atomic<u64> locked = 0, unlocked = 0;
};

u64 allocated(int fd) {
  struct stat st {};
  REQUIRE(::fstat(fd, &st) == 0);
  return static_cast<u64>(st.st_blocks) * 512;
}

void wait_until(const std::atomic<u64> &number, u64 value) {
  for (int i = 0; i < 2000 && number < value; ++i) ::usleep(10'000);
  ::usleep(50'000);  // more would be too many
  CHECK(number == value);
}

}  // namespace

TEST_CASE("pages are made and locked ahead of the copies up to a bound, and unlocked again") {
  constexpr u64 kPiece = DirectMemory::kPieceBytes, kPieces = 7, kAhead = 2;
  DirectMemory memory(kPieces * kPiece);
  Result<OwnFd> fd = memory.make_file();
  REQUIRE(fd);
  Locks device;
  {
    PiecesAhead ahead(memory, &device, kAhead * kPiece);
    wait_until(device.locked, 1 + kAhead);  // the first piece, and those ahead of it
    CHECK(allocated(fd->get()) == (1 + kAhead) * kPiece);
    REQUIRE(ahead.wait_for(3));
    wait_until(device.locked, 4 + kAhead);
    CHECK(allocated(fd->get()) == (4 + kAhead) * kPiece);
    CHECK(device.unlocked == 0);
  }
  CHECK(device.unlocked == 4 + kAhead);
}

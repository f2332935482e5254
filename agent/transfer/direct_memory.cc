// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/direct_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/huge_pages.h"
#include "common/base/rounded_up.h"
#include "common/base/units.h"

namespace ckpt::agent {
namespace {

// At the end of each piece less than a grain may stay unused.
u64 with_waste(u64 bytes) {
  u64 waste = (bytes / (DirectMemory::kPieceBytes - DirectMemory::kGrain) + 1);
  return rounded_up(bytes + waste * DirectMemory::kGrain, kHugePageBytes);
}

// ftruncate(2) beyond the limit would end the process with SIGXFSZ.
bool within_file_size_limit(u64 bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

Result<UniqueFd> sealed_file(u64 bytes) {
  if (!within_file_size_limit(bytes))
    return fail("a file of {} exceeds the limit RLIMIT_FSIZE", mebibytes_needed(bytes));
  UniqueFd fd(::memfd_create("ckpt-contents", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    return fail_errno("cannot create a file of {} in memory", mebibytes_needed(bytes));
  return fd;
}

}  // namespace

DirectMemory::DirectMemory(u64 bytes) : DirectMemory(with_waste(bytes), Pages::Missing) {}

DirectMemory::DirectMemory(u64 bytes, Pages pages) : bytes_(bytes), pages_(pieces(), pages) {}

Result<std::unique_ptr<DirectMemory>> DirectMemory::of_file(int fd, u64 bytes, Pages pages) {
  struct stat st {};
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &st) < 0 || bytes == 0 ||
      bytes > static_cast<u64>(st.st_size))
    return fail("the file of contents is smaller than {} bytes, or can still shrink", bytes);
  std::unique_ptr<DirectMemory> memory(new DirectMemory(bytes, pages));
  CKPT_CHECK(memory->map(fd));
  return memory;
}

Result<OwnFd> DirectMemory::make_file() {
  CKPT_TRY(OwnFd fd, OwnFd::make([this] { return sealed_file(bytes_); }));
  CKPT_CHECK(map(fd.get()));
  return fd;
}

// Huge pages need an aligned address.
Result<> DirectMemory::map(int fd) {
  unmap();
  std::scoped_lock lock(fork_gate());
  void *all = ::mmap(nullptr, bytes_ + kHugePageBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED)
    return fail_errno("cannot reserve addresses for {}", mebibytes_needed(bytes_));
  reserved_ = all;
  auto aligned = rounded_up(reinterpret_cast<u64>(all), kHugePageBytes);
  void *p = ::mmap(reinterpret_cast<void *>(aligned), bytes_, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, fd, 0);
  if (p == MAP_FAILED) return fail_errno("cannot map {}", mebibytes_needed(bytes_));
  base_ = static_cast<std::byte *>(p);
  ::madvise(base_, bytes_, MADV_DONTFORK);
  ::madvise(base_, bytes_, MADV_HUGEPAGE);
  return {};
}

void DirectMemory::unmap() {
  if (reserved_ != nullptr) ::munmap(reserved_, bytes_ + kHugePageBytes);
  reserved_ = nullptr;
  base_ = nullptr;
  std::ranges::replace(pages_, Pages::Mapped, Pages::InFile);
}

std::span<std::byte> DirectMemory::piece(u64 number) const {
  u64 begin = number * kPieceBytes;
  return {base_ + begin, std::min(kPieceBytes, bytes_ - begin)};
}

Result<> DirectMemory::populate(u64 number) {
  Pages &pages = pages_[number];
  if (pages == Pages::Mapped) return {};
  CKPT_CHECK(pages == Pages::InFile ? map_pages(piece(number)) : ckpt::populate(piece(number)));
  pages = Pages::Mapped;
  return {};
}

std::optional<DirectMemory::Place> DirectMemory::take(u64 wanted) {
  if (std::optional<Place> again = take_given(wanted)) return again;
  u64 room = std::min(bytes_, (piece_of(next_) + 1) * kPieceBytes) - next_;
  u64 bytes = wanted <= room ? wanted : room / kGrain * kGrain;
  if (bytes == 0) {
    next_ += room;
    if (next_ >= bytes_) return {};
    return take(wanted);
  }
  Place place{next_, bytes};
  next_ += std::min(room, rounded_up(bytes, kRegionAlign));
  return place;
}

// Most given places are whole pieces, so the first one that is not too small will do.
std::optional<DirectMemory::Place> DirectMemory::take_given(u64 wanted) {
  auto fits = [wanted](const Place &p) { return p.bytes >= std::min(wanted, kGrain); };
  auto it = std::ranges::find_if(given_, fits);
  if (it == given_.end()) return {};
  Place place = *it;
  given_.erase(it);
  u64 bytes = wanted <= place.bytes ? wanted : place.bytes / kGrain * kGrain;
  if (u64 used = rounded_up(bytes, kRegionAlign); used < place.bytes)
    given_.push_back({place.at + used, place.bytes - used});
  return Place{place.at, bytes};
}

}  // namespace ckpt::agent

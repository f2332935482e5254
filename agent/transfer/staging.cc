// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/staging.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ckpt::agent {
namespace {

Result<> check_shape(u32 slots, u32 slot_bytes) {
  u32 page = static_cast<u32>(::sysconf(_SC_PAGESIZE));
  if (slots == 0 || slots > kMaxSlots || slot_bytes == 0 || slot_bytes > kMaxSlotBytes ||
      slot_bytes % page != 0)
    return fail("staging memory of {} slots of {} bytes is not supported", slots, slot_bytes);
  return {};
}

// If the peer shrank the file, an access would end this process with SIGBUS. So the file is sealed;
// a file that cannot be sealed is accepted as it is.
Result<> check_size(int fd, u64 size) {
  struct stat st {};
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
  if (::fstat(fd, &st) < 0) return fail_errno("cannot inspect the staging memory");
  if (!S_ISREG(st.st_mode) || static_cast<u64>(st.st_size) < size)
    return fail("the staging memory has {} bytes instead of {}", st.st_size, size);
  return {};
}

}  // namespace

Result<Staging> Staging::map(Incoming &request) {
  Reader in = request.reader();
  u32 slots = in.get<u32>(), slot_bytes = in.get<u32>();
  if (!in.done() || request.fds.size() != 1) return fail("malformed Save or Load");
  CKPT_CHECK(check_shape(slots, slot_bytes));
  CKPT_CHECK(check_size(request.fds[0].get(), u64{slots} * slot_bytes));
  return map_fd(std::move(request.fds[0]), slots, slot_bytes);
}

Result<Staging> Staging::create(u32 slots, u32 slot_bytes) {
  u64 size = u64{slots} * slot_bytes;
  CKPT_TRY(OwnFd fd, OwnFd::make([size]() -> Result<UniqueFd> {
             UniqueFd made(::memfd_create("ckpt-staging", MFD_CLOEXEC));
             if (made && ::ftruncate(made.get(), static_cast<off_t>(size)) == 0) return made;
             return fail_errno("cannot create staging memory");
           }));
  return map_fd(std::move(fd), slots, slot_bytes);
}

Result<Staging> Staging::map_fd(OwnFd fd, u32 slots, u32 slot_bytes) {
  u64 size = u64{slots} * slot_bytes;
  void *base = MAP_FAILED;
  {
    std::scoped_lock lock(fork_gate());
    base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (base != MAP_FAILED) ::madvise(base, size, MADV_DONTFORK);
  }
  if (base == MAP_FAILED) return fail_errno("cannot map {} bytes of staging memory", size);
  return Staging(std::move(fd), slots, slot_bytes, static_cast<std::byte *>(base));
}

Staging::Staging(OwnFd fd, u32 slots, u32 slot_bytes, std::byte *base)
    : fd_(std::move(fd)), slots_(slots), slot_bytes_(slot_bytes), base_(base) {}

Staging::Staging(Staging &&o) noexcept
    : fd_(std::move(o.fd_)),
      slots_(o.slots_),
      slot_bytes_(o.slot_bytes_),
      base_(std::exchange(o.base_, nullptr)) {}

Staging::~Staging() {
  if (base_) ::munmap(base_, size());
}

Result<> Staging::check_piece(u64 offset, u32 bytes, u64 total) const {
  if (bytes == 0 || bytes > slot_bytes_ || offset % slot_bytes_ != 0 || offset > total ||
      bytes > total - offset)
    return fail("{} bytes at offset {} do not fit a region of {} bytes with slots of {}", bytes,
                offset, total, slot_bytes_);
  return {};
}

}  // namespace ckpt::agent

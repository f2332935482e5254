// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/staging_slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ckpt::tools {
namespace {
constexpr size_t kBytes = static_cast<size_t>(StagingSlots::kSlots) * StagingSlots::kSlotBytes;
}

Result<StagingSlots> StagingSlots::create() {
  UniqueFd fd(::memfd_create("ckpt-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), kBytes) < 0) return fail_errno("cannot create staging memory");
  // If the peer could shrink the file, our next access would raise SIGBUS.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
    return fail_errno("cannot seal staging memory");
  void *p = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno("cannot map staging memory");
  return StagingSlots(std::move(fd), static_cast<std::byte *>(p));
}

StagingSlots::~StagingSlots() {
  if (memory_) ::munmap(memory_, kBytes);
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_file.h"
#include "common/base/units.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace ckpt::tools {

Result<std::shared_ptr<ContentsFile>> ContentsFile::map(UniqueFd fd, u64 bytes) {
  struct stat st {};
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd.get(), &st) < 0 || bytes == 0 ||
      static_cast<u64>(st.st_size) < bytes)
    return fail("the agent's file of device memory is smaller than {} bytes, or can still shrink",
                bytes);
  void *p = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno("cannot map {} of device memory", mebibytes_needed(bytes));
  return std::shared_ptr<ContentsFile>(
      new ContentsFile(std::move(fd), static_cast<const std::byte *>(p), bytes));
}

ContentsFile::~ContentsFile() { ::munmap(const_cast<std::byte *>(memory_), bytes_); }

Result<ByteView> ContentsFile::part(u64 at, u64 bytes) {
  struct stat st {};
  if (at > bytes_ || bytes > bytes_ - at)
    return fail("the agent's file of device memory does not contain {} bytes at offset {}", bytes,
                at);
  in_parts_ += bytes;
  if (::fstat(fd_.get(), &st) < 0 || in_parts_ > static_cast<u64>(st.st_blocks) * 512)
    return fail(
        "the agent's file of device memory contains less data than the agent has announced");
  return ByteView(memory_ + at, bytes);
}

}  // namespace ckpt::tools

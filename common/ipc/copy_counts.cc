// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/copy_counts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {
namespace {

Result<CopyCounts *> map(const char *path) {
  // Not blocking: a FIFO must not stop the program.
  UniqueFd fd(::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot open {}", path);
  struct stat st {};
  if (::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != sizeof(CopyCounts))
    return fail("{} is not a file of {} bytes", path, sizeof(CopyCounts));
  void *p = ::mmap(nullptr, sizeof(CopyCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno("cannot map {}", path);
  auto *counts = static_cast<CopyCounts *>(p);
  if (counts->magic == CopyCounts::kMagic) return counts;
  ::munmap(p, sizeof(CopyCounts));
  return fail("{} is not a file for counts", path);
}

}  // namespace

CopyCounts *map_copy_counts(const char *path) {
  Result<CopyCounts *> counts = map(path);
  if (counts) return *counts;
  log::warn("copies are not counted: {}; check {}", counts.error().what, CopyCounts::kVariable);
  return nullptr;
}

CopyCounts *open_copy_counts() {
  const char *path = ::secure_getenv(CopyCounts::kVariable);
  return path == nullptr ? nullptr : map_copy_counts(path);
}

}  // namespace ckpt

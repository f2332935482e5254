// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// A memfd of `bytes` bytes, sealed against shrinking and growing, so that no mapping of it can
// fault.
inline Result<UniqueFd> make_memfd(const char *name, size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("cannot make shared memory {}", name);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0)
    return fail_errno("cannot resize shared memory {} to {} bytes", name, bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    return fail_errno("cannot seal shared memory {}", name);
  return fd;
}

// Owns one shared mapping. A forked child does not inherit it (MADV_DONTFORK).
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping &&o) noexcept : p_(std::exchange(o.p_, nullptr)), n_(o.n_) {}
  Mapping &operator=(Mapping &&o) noexcept {
    reset();
    p_ = std::exchange(o.p_, nullptr);
    n_ = o.n_;
    return *this;
  }
  ~Mapping() { reset(); }

  // Maps a memfd of at least `bytes` bytes. The peer has our uid and is trusted not to shrink it.
  static Result<Mapping> map(int fd, size_t bytes) {
    struct stat st {};
    if (::fstat(fd, &st) < 0 || static_cast<size_t>(st.st_size) < bytes)
      return fail("shared memory is smaller than the expected {} bytes", bytes);
    void *p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return fail_errno("cannot map {} bytes of shared memory", bytes);
    ::madvise(p, bytes, MADV_DONTFORK);
    Mapping m;
    m.p_ = static_cast<std::byte *>(p);
    m.n_ = bytes;
    return m;
  }

  std::byte *data() const { return p_; }
  size_t size() const { return p_ ? n_ : 0; }
  void reset() {
    if (p_) ::munmap(p_, n_);
    p_ = nullptr;
  }
  // In a forked child, which has not inherited the pages: there is nothing to unmap.
  void forget() { p_ = nullptr; }

 private:
  std::byte *p_ = nullptr;
  size_t n_ = 0;
};

}  // namespace ckpt

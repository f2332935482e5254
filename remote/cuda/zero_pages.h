// SPDX-License-Identifier: Apache-2.0
//
// Memory that begins as zeros and takes room only where it was written.
#pragma once

#include <sys/mman.h>

#include <utility>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

class ZeroPages {
 public:
  ZeroPages() = default;
  explicit ZeroPages(u64 bytes) : bytes_(bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (p != MAP_FAILED) data_ = static_cast<std::byte *>(p);
  }
  ZeroPages(ZeroPages &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ZeroPages &operator=(ZeroPages &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ZeroPages(const ZeroPages &) = delete;
  ZeroPages &operator=(const ZeroPages &) = delete;
  ~ZeroPages() {
    if (data_) ::munmap(data_, bytes_);
  }

  // Null: there was no memory.
  std::byte *data() const { return data_; }
  u64 bytes() const { return bytes_; }
  void clear() {
    if (data_) ::madvise(data_, bytes_, MADV_DONTNEED);
  }

 private:
  std::byte *data_ = nullptr;
  u64 bytes_ = 0;
};

}  // namespace ckpt::remote::cuda

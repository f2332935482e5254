// SPDX-License-Identifier: Apache-2.0
//
// Huge pages for the buffers of OpenCL drivers that run on the CPU. PoCL and rusticl allocate
// buffers with posix_memalign(3). With pages of 4 KiB, the first write to 1 GiB takes 0.6 s, nearly
// all of it for page faults; with huge pages, 0.16 s (kernel 6.18). A resume or restore writes all
// buffers.
//
// This function takes the place of the C library's for the whole process, as the executable comes
// first where a driver's symbols are looked up. What it returns is freed by free(3), as always.
#include <malloc.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace {

// Smaller blocks may lie in malloc's heap and share a huge page with other blocks.
constexpr size_t kLarge = 4u << 20;
constexpr uintptr_t kPage = 4096;

void advise(void *block, size_t bytes) {
  auto begin = (reinterpret_cast<uintptr_t>(block) + kPage - 1) & ~(kPage - 1);
  auto end = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(kPage - 1);
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);  // only a hint
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int posix_memalign(void **memptr, size_t alignment,
                                                             size_t size) noexcept {
  if (alignment % sizeof(void *) != 0 || !std::has_single_bit(alignment)) return EINVAL;
  int before = errno;
  void *block = ::memalign(alignment, size);
  errno = before;  // POSIX: it is not set
  if (!block) return ENOMEM;
  if (size >= kLarge) advise(block, size);
  *memptr = block;
  return 0;
}

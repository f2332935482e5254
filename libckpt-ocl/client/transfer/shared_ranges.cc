// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/shared_ranges.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace ckpt::ocl {
namespace {

std::atomic<SharedRange *> g_ranges{nullptr};

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

SharedRange *SharedRange::add(std::byte *begin, size_t bytes, unsigned users) {
  SharedRange *r = g_ranges.load();
  for (bool taken = false; r; r = r->next_, taken = false)
    if (r->taken_.compare_exchange_strong(taken, true)) break;
  if (!r) {
    r = new (std::nothrow) SharedRange;
    if (!r) return nullptr;
    r->taken_ = true;
    r->next_ = g_ranges.load();
    while (!g_ranges.compare_exchange_weak(r->next_, r)) {
    }
  }
  r->users_ = users;
  r->begin_ = begin;
  r->bytes_ = bytes;
  return r;
}

void SharedRange::remove() {
  close_file();
  bytes_ = 0;
  taken_ = false;
}

void SharedRange::close_file() {
  if (int fd = file_.exchange(-1); fd >= 0) ::close(fd);
}

void SharedRange::all_in_child() {
  for (SharedRange *r = g_ranges.load(); r; r = r->next_) r->in_child();
}

// Without memory for a copy, an access of the child ends it: no wrong data, and no write of either
// side reaches the other.
void SharedRange::in_child() {
  close_file();
  size_t bytes = bytes_.exchange(0);
  if (bytes > 0 && !make_private(begin_, bytes, in_use()))
    (void)::mmap(begin_, bytes, PROT_NONE, kAnonymous | MAP_FIXED, -1, 0);
}

bool make_private(std::byte *begin, size_t bytes, bool keep_contents) {
  if (!keep_contents)
    return ::mmap(begin, bytes, PROT_READ | PROT_WRITE, kAnonymous | MAP_FIXED, -1, 0) == begin;
  void *copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, begin, bytes);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == begin) return true;
  ::munmap(copy, bytes);
  return false;
}

}  // namespace ckpt::ocl

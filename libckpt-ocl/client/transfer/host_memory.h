// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ckpt::ocl {

// Whether these pages of the program may be replaced by those of a buffer file with the same
// contents: ordinary memory that is neither shared nor treated in any special way (locked, marked
// by madvise(2), watched by userfaultfd(2), a stack that grows), in a process in which no memory is
// pinned for a device or for io_uring(7). Reads /proc/self/smaps.
bool may_replace_pages(const std::byte *begin, const std::byte *end);

}  // namespace ckpt::ocl

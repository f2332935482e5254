// SPDX-License-Identifier: Apache-2.0
//
// Pages for memory that is about to be written: huge ones (2 MiB) where the kernel can make them.
//
// The problem. A file in memory (memfd_create(2)) gets huge pages by itself only if the
// administrator has enabled that (/sys/kernel/mm/transparent_hugepage/shmem_enabled), which is not
// the default. With pages of 4 KiB, allocating takes six times as long, and unmapping and freeing
// them takes more time than copying their contents (docs/PERFORMANCE.md).
//
// MADV_COLLAPSE (madvise(2), Linux 6.1) makes a huge page whatever that setting is, of each aligned
// range of 2 MiB that has at least one page. So each range is given one page first.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/result.h"

namespace ckpt {

inline constexpr size_t kHugePageBytes = 2u << 20;

// Allocates the pages of a writable mapping; existing ones keep their contents, also while they are
// written. From any thread. Fails if memory is short. Where the kernel has no huge page, the pages
// are small; before Linux 5.14, it allocates none.
Result<> populate(std::span<std::byte> memory);
// The same for pages that exist, which only need to be mapped. MADV_COLLAPSE first waits until each
// core has emptied its lists of pages (lru_add_drain_all() in mm/khugepaged.c), which takes long
// while all cores copy.
Result<> map_pages(std::span<std::byte> memory);

}  // namespace ckpt

// SPDX-License-Identifier: Apache-2.0
//
// Bandwidths of the host's memory, after McCalpin's STREAM: a = b + s c over arrays that are larger
// than the caches. Of each element, two values are read and one is written; what a write reads into
// the cache first is not counted, as there.
#pragma once

#include <cstddef>

namespace ckpt::tools {

// GB/s of `threads` threads together, the best of several rounds of at least `seconds` in all.
double stream_bandwidth(unsigned threads, size_t megabytes, double seconds);

}  // namespace ckpt::tools

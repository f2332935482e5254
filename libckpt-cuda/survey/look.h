// SPDX-License-Identifier: Apache-2.0
//
// What the kernel of look.cu is given and what it answers. For g++ and nvcc.
#pragma once

#include "libckpt-cuda/survey/xxh3.h"

namespace ckpt::cuda {

// A chunk of device memory; at least xxh3::kLeastBytes long, at an address that is a multiple
// of 16.
struct Chunk {
  xxh3::u64 at;
  xxh3::u32 bytes;
  xxh3::u32 reserved;
};

struct Seen {
  xxh3::Hash address;  // unless all bytes are zero, or only zeros were looked for
  xxh3::u32 zeros;     // 1: all bytes are
  xxh3::u32 reserved;
};

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of memory, of any shape, and how they are put into a stream.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// A box of bytes on both sides. Linear copies are boxes of one row.
struct Box {
  char *dst = nullptr;
  const char *src = nullptr;
  u64 width = 0, height = 1, depth = 1;
  u64 dst_row = 0, dst_slice = 0;
  u64 src_row = 0, src_slice = 0;
  bool src_pageable = false;
  bool dst_pageable = false;
};

struct Fill {
  char *dst = nullptr;
  u64 row = 0;
  u64 width = 0;  // elements
  u64 height = 1;
  u32 element = 1;  // bytes: 1, 2, 4
  u32 value = 0;
};

// Where the bytes behind a pointer are: memory of the device or of the host. False: the pointer
// lies in the window of device addresses, but not in an allocation.
bool resolve(u64 address, u64 bytes, char *&host, bool &pageable);

void run(const Box &b);
// The same in modelled time, if there is a model.
void run(Context *c, const Box &b);
void run(const Fill &f);

// A copy in a stream, or into the graph that the stream records. Pageable memory is read before
// this returns, and written before it returns (CUDA driver API, "API synchronization behavior").
CUresult submit(Context *c, CUstream stream, Box b, bool wait);
CUresult submit(Context *c, CUstream stream, const Fill &f, bool wait);

CUresult box_of(const CUDA_MEMCPY3D &d, Box &b);
CUresult box_of(const CUDA_MEMCPY2D &d, Box &b);
CUresult linear(u64 dst, u64 src, u64 bytes, Box &b);

}  // namespace ckpt::softcuda::driver

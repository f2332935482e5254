// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of memory, of any shape.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// A copy between two boxes of bytes. A linear copy has one row.
struct Box {
  char *dst = nullptr;
  const char *src = nullptr;
  u64 width = 0, height = 1, depth = 1;  // bytes, rows, slices
  u64 dst_row = 0, dst_slice = 0;        // distances in bytes
  u64 src_row = 0, src_slice = 0;
  bool src_pageable = false;
  bool dst_pageable = false;
  CUDA_MEMCPY3D described{};  // as the program asked for it
};

struct Fill {
  char *dst = nullptr;
  u64 row = 0;    // distance between rows in bytes
  u64 width = 0;  // elements
  u64 height = 1;
  u32 element = 1;  // bytes: 1, 2, 4
  u32 value = 0;
  u64 address = 0;  // of `dst` on the device
};

// The host address of the bytes behind a pointer. `pageable`: it is ordinary memory of the host,
// unknown to the driver. False: null, or a device address that is not allocated.
bool resolve(u64 address, u64 bytes, char *&host, bool &pageable);

// Execute a copy or fill on this thread. With a context, a copy also takes modelled time.
void run(const Box &b);
void run(Context *c, const Box &b);
void run(const Fill &f);

// Check the arguments of a copy and convert them.
CUresult box_of(const CUDA_MEMCPY3D &d, Box &b);
CUresult linear(u64 dst, u64 src, u64 bytes, Box &b);

}  // namespace ckpt::softcuda::driver

// SPDX-License-Identifier: Apache-2.0
//
// Copies between the program's memory and device memory, and fills.
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// The stream of a copy, and whether the call waits for it.
struct Order {
  u64 stream;
  bool async;
};

// Any two addresses.
CUresult copy(u64 to, u64 from, u64 bytes, Order order);
CUresult write_device(u64 to, const void *from, u64 bytes, Order order);
CUresult read_device(void *to, u64 from, u64 bytes, Order order);
CUresult copy_on_device(u64 to, u64 from, u64 bytes, Order order);
// cuMemcpyPeer: behind all work of both contexts (CUDA runtime API, cudaMemcpyPeer).
CUresult copy_between(u64 to, CUcontext of, u64 from, CUcontext source, u64 bytes, Order order);
// In any context, one way: an error is known at the next Op::Idle or Op::Settle of the context.
void send_bytes(u64 to, ByteView bytes, u64 context);
void send_zeros(u64 to, u64 bytes, u64 context);
CUresult copy_box(const CUDA_MEMCPY3D &c, Order order);
// Whether both sides are memory that can be copied from or to.
CUresult check_box(const CUDA_MEMCPY3D &c);
// Host functions that the program has enqueued may write to memory that a copy is to read.
CUresult wait_for_host_functions(Order order);
// Whether a call that waits for the device can be sent one way, so that only the server waits. Then
// no call of another thread and no host function may have to be served meanwhile, and the program
// sees nothing of the device but by its calls.
bool can_wait_there();
// `height` rows of `width` values of `unit` bytes.
CUresult fill(u64 address, u64 pitch, u32 value, u32 unit, u64 width, u64 height, Order order);

}  // namespace ckpt::remote::cuda

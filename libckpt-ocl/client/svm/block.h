// SPDX-License-Identifier: Apache-2.0
//
// Blocks of shared virtual memory: buffer files (transfer/shared_memory.h) at the same addresses in
// application and proxy
//
//   application   …│block│…│block│…       allocations.h has the program's allocations in them
//                     ║       ║           buffer files
//   proxy         …│block│…│block│…       over each the driver's buffer (USE_HOST_PTR)
//
// So a pointer means the same in both, also one that a kernel reads from memory. This requires a
// device that works at host addresses (proxy/device/host_addresses.h); there the driver's own
// shared virtual memory is not needed, and the memory is fine-grained, because there is only one
// copy.
//
// A block is a buffer of the ledger that the program never sees. Commands on shared virtual memory
// are those on that buffer, and a kernel's pointer is a place in it.
//
// The program may write to a block at any moment and keeps pointers into it. So in a checkpoint
// CRIU saves its pages, as those of a mapped buffer, and a new proxy must map them at the old
// addresses. The check before a restore tests whether the device and its process can
// (proxy/check/check.h). The addresses are in a part of the address space where the system places
// nothing by itself (libckpt-ocl/svm_addresses.h).
#pragma once

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// A new block with `bytes` bytes, whole pages. The caller has the application's reference. nullptr:
// the reason is in `status`.
Mem *make_block(Context &context, size_t bytes, cl_int &status);
void release_block(Mem &block);
// For attach(): the driver's buffer was made again, and gets the block's pages.
Result<> share_block_again(Mem &block);

// A new buffer that the program has made over a part of a block (CL_MEM_USE_HOST_PTR); m.block is
// set.
cl_int share_in_block(Mem &m);
Result<> share_in_block_again(Mem &m);

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
//
// A range of addresses from our windows (addresses.h) with physical memory beneath it, mapped as
// one. The physical memory can be given back and made anew at the same addresses.
#pragma once

#include "common/base/result.h"
#include "libckpt-cuda/memory/physical.h"

namespace ckpt::cuda {

struct Block {
  u64 base = 0;
  u64 bytes = 0;
  CUdevice device = 0;
  Physical physical = 0;
  bool mapped = false;
};

// Takes addresses and maps memory to them. `b.bytes` is a multiple of the granularity.
CUresult make_block(Block &b, const AccessList &access);
// Frees memory and addresses. Where the driver does not unmap it, that is logged, and neither is
// used again.
void drop_block(const Block &b);

// Maps physical memory to the addresses that the block has: what has returned under the name of its
// address (physical.h), or new memory.
CUresult map_block(Block &b, const AccessList &access);
// For a checkpoint: gives the physical memory of all blocks back, with as few calls as possible.
// `blocks`: in the order of their addresses. A failure leaves those mapped that the driver did not
// unmap.
Result<> unmap_blocks(const std::vector<Block *> &blocks);

}  // namespace ckpt::cuda

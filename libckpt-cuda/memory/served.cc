// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/served.h"

#include "common/base/rounded_up.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/pools.h"
#include "libckpt-cuda/memory/program_memory.h"

namespace ckpt::cuda {

u64 served_bytes() { return memory().block_bytes() + pools().bytes() + program_memory().bytes(); }

u64 served_bytes(CUdevice device) {
  return memory().block_bytes(device) + pools().bytes(device) + program_memory().bytes(device);
}

u64 bytes_to_save(u64 align) {
  u64 sum = 0;
  for (const Contents &c : memory().contents()) sum += rounded_up(c.bytes, align);
  for (const Contents &c : pools().contents()) sum += rounded_up(c.bytes, align);
  for (const ProgramMemory::Whole &w : program_memory().wholes()) sum += rounded_up(w.bytes, align);
  return sum;
}

bool drop_kept_memory() {
  bool dropped = memory().drop_kept();
  return pools().drop_freed() > 0 || dropped;
}

void keep_no_memory() {
  memory().keep_no_blocks();
  pools().keep_no_blocks();
}

Result<> unmap_served_memory() {
  CKPT_CHECK(memory().unmap_all());
  CKPT_CHECK(pools().unmap_all());
  return program_memory().unmap_all();
}

Result<> remap_served_memory() {
  CKPT_CHECK(memory().remap_all());
  CKPT_CHECK(pools().remap_all());
  return program_memory().remap_all();
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/served.h"

#include "common/base/rounded_up.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"
#include "libckpt-cuda/memory/program_memory.h"

namespace ckpt::cuda {

u64 served_bytes() {
  return memory().block_bytes() + paired_blocks().block_bytes() + pools().bytes() +
         program_memory().bytes();
}

u64 served_bytes(CUdevice device) {
  return memory().block_bytes(device) + paired_blocks().block_bytes(device) +
         pools().bytes(device) + program_memory().bytes(device);
}

u64 bytes_to_save(u64 align) {
  u64 sum = 0;
  for (const Contents &c : memory().contents()) sum += rounded_up(c.bytes, align);
  for (const Contents &c : paired_blocks().contents()) sum += rounded_up(c.bytes, align);
  for (const Contents &c : ipc_memory().contents()) sum += rounded_up(c.bytes, align);
  for (const Contents &c : pools().contents()) sum += rounded_up(c.bytes, align);
  for (const ProgramMemory::Whole &w : program_memory().wholes()) sum += rounded_up(w.bytes, align);
  return sum;
}

std::vector<KeyedPhysical> served_physical() {
  std::vector<KeyedPhysical> all = memory().physical();
  for (const KeyedPhysical &p : paired_blocks().physical()) all.push_back(p);
  for (const KeyedPhysical &p : pools().physical()) all.push_back(p);
  for (const ProgramMemory::Whole &w : program_memory().wholes())
    all.push_back({w.handle, w.bytes, w.physical});
  return all;
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
  CKPT_CHECK(paired_memory().unmap_all());
  CKPT_CHECK(pools().unmap_all());
  CKPT_CHECK(program_memory().unmap_all());
  return ipc_memory().unmap_all();
}

Result<> remap_served_memory() {
  Result<> all = ipc_memory().take_back();
  if (all) all = memory().remap_all();
  if (all) all = paired_memory().remap_all();
  if (all) all = pools().remap_all();
  if (all) all = program_memory().remap_all();
  if (all) all = ipc_memory().remap_owned();
  drop_returned();
  return all;
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/block.h"

#include "common/base/log.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/unmap_ranges.h"

namespace ckpt::cuda {
namespace {

// Where the driver does not unmap it, the block keeps its memory.
CUresult unmap(Block &b) {
  CUresult e = b.mapped ? driver().cuMemUnmap(b.base, b.bytes) : CUDA_SUCCESS;
  if (e != CUDA_SUCCESS) return e;
  release_physical(b.physical);
  b.mapped = false;
  b.physical = 0;
  return CUDA_SUCCESS;
}

// A failure is left to unmap(), block by block.
void unmap_range(const AddressRange &r, const std::vector<Block *> &blocks) {
  if (driver().cuMemUnmap(r.begin, r.end - r.begin) != CUDA_SUCCESS) return;
  for (Block *b : blocks)
    if (b->base >= r.begin && b->base < r.end) b->mapped = false;
}

// Its physical memory exists.
CUresult map(Block &b, const AccessList &access) {
  CUresult e = driver().cuMemMap(b.base, b.bytes, 0, b.physical, 0);
  b.mapped = e == CUDA_SUCCESS;
  if (e == CUDA_SUCCESS) e = give_access(b.base, b.bytes, access);
  if (e != CUDA_SUCCESS) unmap(b);
  return e;
}

}  // namespace

CUresult map_block(Block &b, const AccessList &access) {
  CUresult e = make_for_block(b.base, b.bytes, b.device, b.physical);
  return e == CUDA_SUCCESS ? map(b, access) : e;
}

CUresult make_block(Block &b, const AccessList &access) {
  CUresult e = addresses().take(b.device, b.bytes, b.base);
  if (e != CUDA_SUCCESS) return e;
  e = make_for_block(0, b.bytes, b.device, b.physical);
  if (e == CUDA_SUCCESS) e = map(b, access);
  if (e != CUDA_SUCCESS) addresses().give(b.base, b.bytes);
  return e;
}

// Addresses that are still mapped can serve no other block.
void drop_block(const Block &b) {
  Block copy = b;
  if (CUresult e = unmap(copy); e == CUDA_SUCCESS)
    addresses().give(b.base, b.bytes);
  else
    log::warn("{} bytes of device memory are not freed: cuMemUnmap fails with {}", b.bytes,
              error_name(e));
}

Result<> unmap_blocks(const std::vector<Block *> &blocks) {
  std::vector<AddressRange> mapped;
  for (Block *b : blocks)
    if (b->mapped) mapped.push_back({b->base, b->base + b->bytes});
  auto window_of = [](u64 at) { return addresses().window_of(at); };
  for (const AddressRange &r : unmap_ranges(mapped, window_of)) unmap_range(r, blocks);
  for (Block *b : blocks)
    if (CUresult e = unmap(*b); e != CUDA_SUCCESS)
      return fail("cannot unmap {} bytes of device memory at {:#x}: {}", b->bytes, b->base,
                  error_name(e));
  return {};
}

}  // namespace ckpt::cuda

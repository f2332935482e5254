// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/held_memory.h"

namespace ckpt::cuda {

Result<> HeldMemory::add(SharedMemory memory) {
  u64 key = memory.key;
  if (memory.bytes == 0 || pieces_.contains(key)) return fail("malformed device memory {:#x}", key);
  CKPT_TRY(Piece piece, import(std::move(memory)));
  pieces_.emplace(key, std::move(piece));
  return {};
}

// The driver maps no more than there is, so `bytes` need not be trusted.
Result<HeldMemory::Piece> HeldMemory::import(SharedMemory memory) {
  Piece piece{std::move(memory.handle), memory.bytes};
  void *handle = reinterpret_cast<void *>(static_cast<intptr_t>(piece.handle.get()));
  CKPT_CHECK(driver_.checked(driver_.cuMemImportFromShareableHandle(
                                 &piece.physical, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                             "import device memory"));
  CUmemAllocationProp prop{};
  CKPT_CHECK(driver_.checked(driver_.cuMemGetAllocationPropertiesFromHandle(&prop, piece.physical),
                             "find the device of memory"));
  CKPT_TRY(piece.context, driver_.context_on(prop.location.id));
  CKPT_CHECK(driver_.checked(driver_.cuMemAddressReserve(&piece.base, piece.bytes, 0, 0, 0),
                             "reserve device addresses"));
  CKPT_CHECK(driver_.checked(driver_.cuMemMap(piece.base, piece.bytes, 0, piece.physical, 0),
                             "map device memory"));
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
  CKPT_CHECK(driver_.checked(driver_.cuMemSetAccess(piece.base, piece.bytes, &access, 1),
                             "access device memory"));
  return piece;
}

const HeldMemory::Piece *HeldMemory::find(u64 key) const {
  auto it = pieces_.find(key);
  return it == pieces_.end() ? nullptr : &it->second;
}

std::vector<SharedMemory> HeldMemory::take(size_t most) {
  std::vector<SharedMemory> some;
  while (some.size() < most && !pieces_.empty()) {
    auto first = pieces_.begin();
    some.push_back({first->first, first->second.bytes, std::move(first->second.handle)});
    taken_.push_back(std::move(first->second));
    pieces_.erase(first);
  }
  return some;
}

void HeldMemory::let_go() {
  for (const Piece &p : std::exchange(taken_, {})) {
    (void)driver_.cuCtxSetCurrent(p.context);
    driver_.cuMemUnmap(p.base, p.bytes);
    driver_.cuMemAddressFree(p.base, p.bytes);
    driver_.cuMemRelease(p.physical);
  }
}

}  // namespace ckpt::cuda

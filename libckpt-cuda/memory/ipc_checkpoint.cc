// SPDX-License-Identifier: Apache-2.0
//
// Shared device memory over a checkpoint (the essay is in ipc_memory.h).
#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "libckpt-cuda/memory/ipc_memory.h"

namespace ckpt::cuda {

using protocol::ShareState;

Result<> IpcMemory::save() {
  std::lock_guard lock(mutex_);
  ShareLink link;
  for (auto &[base, e] : exports_) {
    CKPT_TRY(bool owns, link.own(e.id));
    if (!owns) return fail("another process saves device memory that this process has exported");
  }
  for (auto &[id, import] : imports_) {
    CKPT_TRY(import.owned, link.own(id));
  }
  return {};
}

std::vector<Contents> IpcMemory::contents() const {
  std::lock_guard lock(mutex_);
  std::vector<Contents> all;
  for (auto &[id, import] : imports_) {
    const Block &b = import.block;
    if (import.owned)
      all.push_back({fmt::format("ipc-{:016x}{:016x}", id[0], id[1]), b.base, b.bytes,
                     import.context.handle, b.device, b.base});
  }
  return all;
}

// A keeper that does not learn it keeps the memory, which is right, but not free.
void IpcMemory::say_away(ShareLink &link, const ShareId &id, Phase &phase) {
  if (phase == Phase::Away) return;
  phase = Phase::Away;
  if (Result<> told = link.away(id); !told)
    log::warn("shared device memory is not given back: {}", told.error().what);
}

Result<> IpcMemory::unmap_all() {
  std::lock_guard lock(mutex_);
  ShareLink link;
  for (auto &[id, import] : imports_)
    if (CUresult e = unmap_import(import); e != CUDA_SUCCESS)
      return fail("cannot unmap {} bytes of memory of another process at {:#x}: {}",
                  import.block.bytes, import.block.base, error_name(e));
  for (auto &[base, e] : exports_) say_away(link, e.id, e.phase);
  for (auto &[id, import] : imports_) say_away(link, id, import.phase);
  return {};
}

std::vector<Memory::BlockView> IpcMemory::exported_blocks() const {
  std::vector<Memory::BlockView> all;
  for (const Memory::BlockView &b : memory().views())
    if (is_exported(b.base)) all.push_back(b);
  return all;
}

// A block that is still mapped was never away, whatever was to be done to it.
Result<> IpcMemory::take_back() {
  std::vector<Memory::BlockView> blocks = exported_blocks();
  std::lock_guard lock(mutex_);
  ShareLink link;
  for (const Memory::BlockView &b : blocks) {
    Export &e = exports_.at(b.base);
    e.phase = Phase::There;
    if (b.mapped) continue;
    SharedPiece piece;
    CKPT_TRY(ShareState state, link.want(e.id, true, piece));
    if (state != ShareState::There || piece.bytes != e.bytes) {
      e.phase = Phase::Fresh;
      continue;
    }
    CurrentContext current(b.context);
    CKPT_TRY(Physical physical, import_physical(piece.memory));
    put_returned(b.base, physical);
  }
  return {};
}

Result<> IpcMemory::remap_owned() {
  std::vector<Memory::BlockView> blocks = exported_blocks();
  std::lock_guard lock(mutex_);
  ShareLink link;
  for (const Memory::BlockView &b : blocks) {
    Export &e = exports_.at(b.base);
    CurrentContext current(b.context);
    if (e.phase == Phase::Fresh)
      CKPT_CHECK(offer(link, e.id, {e.bytes, uuid_of(e.device), -1, true, false}, b.physical));
  }
  for (auto &[id, import] : imports_) {
    if (import.block.mapped) continue;
    // A keeper of a restored program does not know that this process waits for the memory.
    CKPT_CHECK(import.owned ? remap_import(link, id, import) : link.away(id));
  }
  return {};
}

// Of a piece that this process owns, but has not exported.
Result<> IpcMemory::remap_import(ShareLink &link, const ShareId &id, Import &import) {
  Block &b = import.block;
  CurrentContext current(import.context.handle);
  SharedPiece piece;
  CKPT_TRY(ShareState state, link.want(id, true, piece));
  import.phase = state == ShareState::There ? Phase::There : Phase::Fresh;
  if (state == ShareState::There) return map_import(import, piece.memory);
  CKPT_CHECK(as_result(make_for_block(b.base, b.bytes, b.device, b.physical),
                       "make shared device memory again"));
  CKPT_CHECK(map_physical(import));
  return offer(link, id, {b.bytes, uuid_of(b.device), -1, false, false}, b.physical);
}

Result<> IpcMemory::offer(ShareLink &link, const ShareId &id, ShareLink::Offer what,
                          Physical physical) {
  CKPT_TRY(UniqueFd memory, export_physical(physical));
  what.memory = memory.get();
  return link.offer(id, what);
}

bool IpcMemory::is_there(u64 base) const {
  std::lock_guard lock(mutex_);
  if (auto e = exports_.find(base); e != exports_.end()) return e->second.phase == Phase::There;
  for (auto &[id, import] : imports_)
    if (import.block.base == base) return import.phase == Phase::There;
  return false;
}

void IpcMemory::loaded() {
  std::lock_guard lock(mutex_);
  ShareLink link;
  auto tell = [&](const ShareId &id, Phase &phase) {
    Result<> told = phase == Phase::Fresh ? link.loaded(id) : Result<>();
    if (!told) log::error(std::move(told).error().in("other processes do not get shared memory"));
    phase = Phase::Used;
  };
  for (auto &[base, e] : exports_) tell(e.id, e.phase);
  for (auto &[id, import] : imports_)
    if (import.block.mapped) tell(id, import.phase);
}

bool IpcMemory::owns_any() const {
  std::lock_guard lock(mutex_);
  return !exports_.empty() ||
         std::ranges::any_of(imports_, [](const auto &i) { return i.second.owned; });
}

bool IpcMemory::is_late() const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(imports_, [](const auto &i) { return !i.second.block.mapped; });
}

// In a restored program, all owners have offered their pieces before any process is resumed.
Result<bool> IpcMemory::map_late() {
  std::lock_guard lock(mutex_);
  ShareLink link;
  bool all = true;
  for (auto &[id, import] : imports_) {
    if (import.block.mapped) continue;
    SharedPiece piece;
    CKPT_TRY(ShareState state, link.want(id, true, piece));
    if (state == ShareState::Lost || state == ShareState::Unknown)
      return fail("the process that had the contents of shared device memory has ended");
    if (state == ShareState::There && piece.bytes != import.block.bytes)
      return fail("shared device memory has another size than before");
    if (state == ShareState::There) {
      CKPT_CHECK(map_import(import, piece.memory));
      import.phase = Phase::Used;
    }
    all = all && import.block.mapped;
  }
  return all;
}

void IpcMemory::give_up() {
  std::lock_guard lock(mutex_);
  ShareLink link;
  for (auto &[base, e] : exports_) (void)link.done(e.id);
  for (auto &[id, import] : imports_) (void)link.done(id);
}

}  // namespace ckpt::cuda

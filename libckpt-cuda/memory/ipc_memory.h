// SPDX-License-Identifier: Apache-2.0
//
// Device memory that processes of one session share (cuIpcGetMemHandle, cuIpcOpenMemHandle).
//
// The problem. A driver's handles do not serve memory of cuMemCreate, and a driver does not restore
// a process in which memory of another process is mapped. The processes of a session are
// checkpointed together, though, so what they share can be kept like other memory, but once.
//
// How it works. The program's handle is ours: the name of a *piece*, which is a block of the
// exporter's (block.h), and the place of the allocation in it. The session's keeper has the
// driver's handle of the piece, a file descriptor (tools/session/device_shares.h). The importer
// maps the whole block at addresses of its own windows, which it keeps over checkpoints:
//
//   exporter's window   | block: | a | b |   |        handle of b: piece 7, offset of b, its size
//                           same physical memory
//   importer's window            | a | b |   |        cuIpcOpenMemHandle returns the address of b
//
// A checkpoint. All processes are quiesced first. Then save() decides which owns a piece: its
// exporter, or if that has gone, the first importer that asks the keeper. Only the owner saves the
// contents. Before the driver is locked, each process unmaps the piece and tells the keeper, which
// closes its handle after the last one. Afterwards the owner makes the memory anew, offers the
// keeper its handle, loads the contents, and says so (loaded()). An importer maps the piece only
// then (map_late()). It does not wait for that in the agent's thread: a tool resumes processes one
// after another, and the owner may be the last. Where the memory is still there, because a dump was
// undone before all had left, the owner maps it and loads nothing (is_there()).
//
// Only allocations of cuMemAlloc can be shared, as with a driver. All blocks are made so that they
// have a handle, because a block in use cannot be exchanged (physical.h).
//
// Source. CUDA driver API, cuIpcGetMemHandle, cuIpcOpenMemHandle and cuIpcCloseMemHandle.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/saved_contents.h"
#include "libckpt-cuda/memory/share_link.h"

namespace ckpt::cuda {

// Thread-safe. The functions that are named like entries behave like them.
class IpcMemory {
 public:
  CUresult get_handle(CUdeviceptr p, CUipcMemHandle &out);
  CUresult open_handle(const CUipcMemHandle &handle, const ContextInfo &context, CUdeviceptr &out);
  CUresult close_handle(CUdeviceptr p);

  // The memory of another process that `address` lies in.
  std::optional<Allocation> find(u64 address) const;
  bool any_imports() const { return imported_.load(std::memory_order_relaxed) > 0; }
  // Whether the block that begins at `base` is a piece. Memory calls both with its mutex held.
  bool is_exported(u64 base) const;
  void block_dropped(u64 base);
  void release_context(CUcontext context);

  // For a checkpoint. Only while no call is inside the gate.
  // Decides what this process owns.
  Result<> save();
  // Of what it owns and has not exported.
  std::vector<Contents> contents() const;
  // After the blocks were unmapped. A failure leaves those mapped that the driver did not unmap.
  Result<> unmap_all();
  // Before the blocks are mapped again: memory that is still there takes the place of new memory
  // (put_returned()).
  Result<> take_back();
  // After that: offers what is new, maps what this process owns, and announces what it waits for.
  Result<> remap_owned();
  // Whether the memory at `base` never went away, so that nothing may be loaded into it.
  bool is_there(u64 base) const;
  // The contents of all that is new are in it.
  void loaded();
  // Whether it saves pieces that others may map.
  bool owns_any() const;
  // Whether a piece of another process is not mapped yet.
  bool is_late() const;
  // Maps those that their owner has loaded; true: no piece is late any more.
  Result<bool> map_late();
  // The process has lost its devices.
  void give_up();

 private:
  // Of a block or an import, in a checkpoint. There: the memory never went away. Fresh: it is new
  // and not loaded yet.
  enum class Phase : u8 { Used, Away, There, Fresh };
  struct Export {
    ShareId id{};
    u64 bytes = 0;
    CUdevice device = 0;
    Phase phase = Phase::Used;
  };
  struct Import {
    Block block;
    ContextInfo context;
    bool owned = false;
    Phase phase = Phase::Used;
    std::map<u64, u64> opened;  // how often, by address
    std::map<u64, u64> sizes;   // by address
  };
  using Imports = std::map<ShareId, Import>;

  CUresult share(const Allocation &a, const Memory::BlockView &block, ShareId &out);
  CUresult open_again(const ShareId &id, const ContextInfo &context, u64 offset, u64 bytes,
                      CUdeviceptr &out);
  CUresult import_piece(const ShareId &id, const ContextInfo &context, SharedPiece &piece);
  Result<> map_import(Import &import, const UniqueFd &memory);
  Result<> map_physical(Import &import);
  std::vector<Memory::BlockView> exported_blocks() const;
  static Result<> offer(ShareLink &link, const ShareId &id, ShareLink::Offer what,
                        Physical physical);
  Result<> remap_import(ShareLink &link, const ShareId &id, Import &import);
  CUresult unmap_import(Import &import);
  void drop_import(Imports::iterator it);
  void say_away(ShareLink &link, const ShareId &id, Phase &phase);

  mutable std::mutex mutex_;
  std::map<u64, Export> exports_;  // by the base of their block
  Imports imports_;
  std::atomic<size_t> imported_{0};
};

// Lives as long as the process.
IpcMemory &ipc_memory();

}  // namespace ckpt::cuda

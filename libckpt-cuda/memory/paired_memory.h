// SPDX-License-Identifier: Apache-2.0
//
// Managed memory that a checkpoint can keep (ckpt-run --managed-memory=kept).
//
// The problem. The driver's own checkpoint refuses its managed memory. Page-locked host memory in
// its place can be kept, but every access of a kernel then goes over the bus.
//
// How it works. Each range is a pair: device memory of ours, at an address of our windows
// (memory.h), and pages of the host at the same address (host_pages.h). One of the two is the
// current one, part by part. A part is 2 MiB, of a block of small allocations 64 KiB:
//
//   program                          part        device
//   a[0] = 1       fault             Host
//   launch         copy of a ──────► Device      the kernel uses a; the host has no access
//   x = a[1]       fault, waits ◄─── Both        copied back; the host may only read
//   a[1] = 2       fault             Host
//
// CUDA allows this. A device without concurrent access to managed memory
// (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0, which programs are told here) has all of it
// from a launch on until the program waits (CUDA programming guide, "Coherency and Concurrency"). A
// program that does not wait is stopped by the fault until the devices are idle, and reads what it
// would read on a device with such access. So a kernel that waits for the host to write managed
// memory waits for ever.
//
// Locks. Whatever submits work holds `submit_` shared, from before the memory is given to the
// device until the driver has returned, and a fault holds it alone. So no fault lies between the
// two. `state_` guards the parts. A host function, which runs on a thread of the driver while its
// stream waits, takes this one only: a call that waits for the function may hold the other one.
// What the function has touched is with the device again before it returns, because the work behind
// it is already submitted.
//
// Faults are resolved by threads of our own (worker.h): one waits for contexts, one copies. While a
// fault waits for the devices, it gives `submit_` away now and then if a host function runs, as
// that may need a lock of the program, which a thread that launches holds.
//
// A checkpoint. What the host has is memory of the process. What the device has are contents like
// all others. The pages leave the device's addresses while the driver is checkpointed, because the
// driver reserves them again in its Restore.
//
// Cost. A call that submits work: one load in a program without such memory, else two locks. A
// fault: two switches of threads, a copy of a part, mprotect(2).
//
// System calls fail with EFAULT on a part that the device holds: a fault of the kernel is no
// signal. So touch/touch.cc asks for buffers before such calls (docs/LIMITS.md has what remains).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <shared_mutex>

#include "libckpt-cuda/memory/host_pages.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/worker.h"

namespace ckpt::cuda {

// Thread-safe.
class PairedMemory {
 public:
  // Whether the program has had such memory. Read by every call that submits work.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // Zeros, as a driver's managed memory begins.
  CUresult allocate(const ContextInfo &context, u64 bytes, u64 &out);
  // As Memory has them.
  u64 release(u64 base);
  void release_context(CUcontext context);
  std::optional<Allocation> find(u64 address) const;
  // Whether `bytes` from `address` are of one allocation.
  bool holds(u64 address, u64 bytes) const;
  bool holds(const void *p) const { return holds(reinterpret_cast<u64>(p), 1); }

  // A context of `device` was made.
  void reach_from(CUdevice device);

  // On the thread of a host function.
  void host_function_begins();
  void host_function_ends();
  // An access of the program to `address` has failed. False: it is not for us to resolve.
  bool resolve_fault(u64 address);

  // As if the program read or wrote these bytes, whatever memory they are.
  void touch(u64 begin, u64 bytes, bool write);

  // For a checkpoint. With the gate closed and the devices idle: what both have is the host's.
  Result<> settle();
  std::vector<Contents> contents() const;
  Result<> unmap_all();
  Result<> remap_all();
  // The devices are lost; what the host has stays.
  void show_pages();

 private:
  friend class PairedWork;
  using SubmitLock = std::unique_lock<std::shared_mutex>;
  struct Block {
    std::unique_ptr<HostPages> pages;
    CUcontext context = nullptr;
  };
  using Taken = std::map<u64, Block>::node_type;
  struct Copy {
    CUcontext context = nullptr;
    u64 device = 0;
    std::byte *host = nullptr;  // null: the device's memory becomes zeros
    u64 bytes = 0;
  };
  enum class Direction : u8 { ToDevice, ToHost };

  CUresult begin_work();
  void end_work();
  CUresult start_threads();
  CUresult make_pair(const Allocation &a);
  CUresult add_pages(const Allocation &a);
  CUresult clear(const Allocation &a);
  void forget_dropped_blocks();
  Taken take_block(u64 base);
  void put_back(Taken block);
  CUresult lend();
  static void close_what_host_has(const Block &block, std::vector<Copy> &copies);
  static void end_lending(const Block &block, bool copied);
  CUresult copy(const std::vector<Copy> &copies, Direction direction);
  CUresult start_copy(const Copy &c, Direction direction);
  CUresult copy_all(const std::vector<Copy> &copies, Direction direction);
  CUresult stream_of(CUcontext context, CUstream &stream);
  bool resolve(u64 address);
  bool device_has(u64 address);
  std::optional<u64> first_fault(u64 begin, u64 end, bool write);
  bool fetch(const Block &block, size_t part);
  void wait_until_idle(SubmitLock &lock);
  const Block *block_at(u64 address) const;
  bool hold(const Block &block, size_t part, Holder holder);

  std::atomic<bool> any_{false};
  std::atomic<int> host_functions_{0};             // that run now
  std::atomic<u64> lowest_{~u64{0}}, highest_{0};  // all blocks so far lie between
  // Of one allocation or free at a time: the driver may wait for the devices in it, and so for a
  // host function that takes `state_`.
  std::mutex allocation_;
  std::shared_mutex submit_;
  mutable std::mutex state_;     // guards the following
  std::map<u64, Block> blocks_;  // by address
  bool all_lent_ = true;         // the device holds all parts
  bool has_threads_ = false;
  std::map<CUcontext, CUstream> streams_;  // for copies
  Worker copier_;

  // How often work was submitted; and, guarded by `submit_`, at which count the devices have been
  // idle, and were last waited for.
  std::atomic<u64> works_{0};
  u64 idle_at_ = 0, waited_from_ = 0;
  Worker waiter_;
};

// Lives as long as the process.
PairedMemory &paired_memory();
// Its device memory.
Memory &paired_blocks();

// A call that submits work: from before its first call of the driver until after the last.
class PairedWork {
 public:
  PairedWork() {
    if (!paired_memory().any()) [[likely]]
      return;
    status_ = paired_memory().begin_work();
    begun_ = status_ == CUDA_SUCCESS;
  }
  ~PairedWork() {
    if (begun_) paired_memory().end_work();
  }
  PairedWork(const PairedWork &) = delete;
  CUresult status() const { return status_; }

 private:
  CUresult status_ = CUDA_SUCCESS;
  bool begun_ = false;
};

}  // namespace ckpt::cuda

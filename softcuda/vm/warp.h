// SPDX-License-Identifier: Apache-2.0
//
// The state of a running kernel: grid, cluster, block, warp, frame, group of lanes. All of it is
// data, nothing is on the host's stack, so a warp can wait at any instruction. schedule.cc explains
// groups.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softcuda/vm/memory_view.h"
#include "softcuda/vm/op.h"

namespace ckpt::softcuda::vm {

struct Dim {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64{x} * y * z; }
};

enum class FaultKind : u8 {
  None,
  IllegalAddress,
  MisalignedAddress,
  Trap,
  Assert,
  Unsupported,
  StackOverflow,
  Deadlock,
  IllegalCall,
  Stopped,  // from outside: the context is being destroyed
};

struct Fault {
  FaultKind kind = FaultKind::None;
  std::string text;
};

class Kernel;
class DeviceServices;

// One launch: what all its blocks share.
struct Grid {
  const Kernel *kernel = nullptr;
  const AddressSpace *memory = nullptr;
  DeviceServices *services = nullptr;
  Dim grid, block, cluster;
  bool explicit_cluster = false;
  u32 static_shared = 0;
  u32 dynamic_shared = 0;
  u32 shared_unit = 128;  // the device allocates shared memory in multiples of it
  u64 id = 0;
  u64 workspace = 0;  // cooperative launch: device address of the grid's barrier
  u32 stack_bytes = 1024;
  u32 multiprocessors = 1;
  std::vector<std::byte> params;
  std::atomic<u64> instructions{0};  // each lane counts
  std::atomic<u64> memory_bytes{0};  // between kernels and memory of the device or the host
  std::atomic<bool> on_host{false};  // a lane has accessed pinned memory of the host
  std::atomic<bool> stop{false};
  std::mutex fault_mutex;
  Fault fault;

  // Stops the grid. Only its first fault is kept. Thread-safe.
  void fail(FaultKind kind, std::string text);
};

// One call of a function by a group of lanes.
struct Frame {
  const Code *code = nullptr;
  std::byte *rows = nullptr;
  Frame *parent = nullptr;
  u32 return_pc = 0;   // in the parent
  u32 call = 0;        // index into the parent's Code::calls
  Mask live = 0;       // lanes that have not returned
  u32 local_base = 0;  // of its variables in the lane's local memory
  u32 depth = 0;       // 0: the kernel itself
};

enum class GroupState : u8 { Ready, BlockBarrier, WarpSync, ClusterBarrier };

// Lanes at the same instruction of the same frame.
struct Group {
  Frame *frame = nullptr;
  u32 pc = 0;
  Mask mask = 0;
  GroupState state = GroupState::Ready;
  u32 barrier = 0;   // BlockBarrier: its number
  Mask members = 0;  // WarpSync: the member mask
  u64 last_run = 0;  // Warp::turn at that time
};

struct Block;

// Entries of a warp's cache of memory ranges; instructions share them modulo this.
inline constexpr u32 kCacheSites = 64;

struct Warp {
  std::byte *rows = nullptr;  // of the running frame
  Frame *frame = nullptr;     // the running frame
  Block *block = nullptr;
  Grid *grid = nullptr;
  Mask carry = 0;             // CC.CF of each lane
  Mask active = 0;            // the running group
  Mask participants = 0;      // WarpSync: lanes that take part in the instruction
  u64 exchange[kLanes] = {};  // WarpSync: their values
  Mask exchange_predicate = 0;
  bool failed = false;
  u32 index = 0;
  Mask lanes = 0;  // that exist: the last warp of a block may have fewer
  Mask exited = 0;
  u32 tid[3][kLanes] = {};
  u32 cluster_phase[kLanes] = {};  // phase of the cluster's barrier at a lane's last arrival
  std::byte *local = nullptr;
  u64 local_stride = 0;  // bytes from lane to lane
  u32 local_bytes = 0;   // of each lane
  std::vector<Group> groups;
  u64 turn = 0;              // counts the turns of its groups
  bool round_robin = false;  // a group spins, so the groups take turns
  Range cache[kCacheSites];

  template <class Cell>
  Cell *row(u32 offset) const {
    return reinterpret_cast<Cell *>(rows + offset);
  }
  u32 &bits(u32 offset) const { return *row<u32>(offset); }

  // Ends the kernel; the message names the function and the PTX line.
  void fail(FaultKind kind, const Op &op, std::string why);
};

struct Barrier {
  u32 arrived = 0;
  u32 expected = 0;  // threads; 0: all live threads of the block
  u32 count = 0;     // bar.red: predicates that were true
  // The last completed reduction.
  u32 result = 0;          // predicates that were true
  u32 result_threads = 0;  // threads that took part
};

inline constexpr u32 kBarriers = 16;
// Functions that are only called through pointers are decoded when a launch has fixed the layout of
// shared memory. Their shared variables begin at this offset.
inline constexpr u32 kLateShared = 256 * 1024;
inline constexpr u32 kSharedBytes = kLateShared + 64 * 1024;

// Blocks that run together, on one thread of the host. Without clusters, each block is one.
struct Cluster {
  std::vector<Block *> blocks;  // by rank
  u32 phase = 1;                // of the barrier
  u32 arrived = 0;              // threads, in this phase
};

// The bits of a shared address above this hold the rank of a block in the cluster plus one, or zero
// for the own block.
inline constexpr u32 kRankShift = 24;

struct Block {
  Grid *grid = nullptr;
  Cluster *cluster = nullptr;
  u32 rank = 0;
  Dim index;
  u64 linear = 0;  // index as one number
  u32 threads = 0;
  u32 live = 0;
  std::byte *shared = nullptr;
  u32 shared_bytes = 0;  // static and dynamic
  Barrier barriers[kBarriers];
  std::vector<std::unique_ptr<Warp>> warps;
};

}  // namespace ckpt::softcuda::vm

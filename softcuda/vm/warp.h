// SPDX-License-Identifier: Apache-2.0
//
// The state of running kernels: grid, block, warp, frame. All of it is explicit, so that a warp can
// wait at any instruction and lanes can part and meet again.
//
// Lanes that stand at the same instruction of the same frame are a Group. A divergent branch parts
// a group; of several groups the one in the deepest call and at the lowest instruction runs first,
// so that the others are caught up with and joined where the paths meet.
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
  Stopped,  // from outside: the context goes away
};

struct Fault {
  FaultKind kind = FaultKind::None;
  std::string text;
};

class Kernel;
class DeviceServices;

// What all blocks of a launch share.
struct Grid {
  const Kernel *kernel = nullptr;
  const AddressSpace *memory = nullptr;
  DeviceServices *services = nullptr;
  Dim grid, block, cluster;
  bool explicit_cluster = false;
  u32 static_shared = 0;
  u32 dynamic_shared = 0;
  u64 id = 0;
  u64 workspace = 0;  // device address of the cooperative groups' workspace, or 0
  u32 stack_bytes = 1024;
  u32 multiprocessors = 1;
  std::vector<std::byte> params;
  std::atomic<u64> instructions{0};  // of lanes
  std::atomic<u64> memory_bytes{0};
  std::atomic<bool> on_host{false};  // it has touched memory of the host
  std::atomic<bool> stop{false};
  std::mutex fault_mutex;
  Fault fault;

  // Only the first fault of a grid is kept.
  void fail(FaultKind kind, std::string text);
};

struct Frame {
  const Code *code = nullptr;
  std::byte *rows = nullptr;
  Frame *parent = nullptr;
  u32 return_pc = 0;  // in the parent: behind the call
  u32 call = 0;       // in the parent: which of its calls
  Mask live = 0;
  u32 local_base = 0;
  u32 depth = 0;
};

enum class GroupState : u8 { Ready, BlockBarrier, WarpSync, ClusterBarrier };

struct Group {
  Frame *frame = nullptr;
  u32 pc = 0;
  Mask mask = 0;
  GroupState state = GroupState::Ready;
  u32 barrier = 0;   // BlockBarrier: which
  Mask members = 0;  // WarpSync: who must come
  u64 last_run = 0;
};

struct Block;

inline constexpr u32 kCacheSites = 64;

struct Warp {
  std::byte *rows = nullptr;  // of the running frame
  Frame *frame = nullptr;     // the running frame
  Block *block = nullptr;
  Grid *grid = nullptr;
  Mask carry = 0;             // CC.CF of each lane
  Mask active = 0;            // the running group
  Mask participants = 0;      // of a warp synchronisation: who has deposited
  u64 exchange[kLanes] = {};  // what they deposited
  Mask exchange_predicate = 0;
  bool failed = false;
  u32 index = 0;
  Mask lanes = 0;  // that exist
  Mask exited = 0;
  u32 tid[3][kLanes] = {};
  u32 cluster_phase[kLanes] = {};  // in which a lane last arrived at the cluster's barrier
  std::byte *local = nullptr;
  u64 local_stride = 0;  // from lane to lane
  u32 local_bytes = 0;   // of a lane
  std::vector<Group> groups;
  u64 turn = 0;
  bool fair = false;  // a group spins: the others take turns
  Range cache[kCacheSites];

  template <class Cell>
  Cell *row(u32 offset) const {
    return reinterpret_cast<Cell *>(rows + offset);
  }
  u32 &bits(u32 offset) const { return *row<u32>(offset); }

  // Ends the kernel, naming the instruction.
  void fail(FaultKind kind, const Op &op, std::string why);
};

struct Barrier {
  u32 arrived = 0;
  u32 expected = 0;  // 0: all threads that live
  u32 count = 0;     // bar.red: predicates that were true
  u32 result = 0;    // of the last completed reduction: how many were true …
  u32 of = 0;        // … of how many
};

inline constexpr u32 kBarriers = 16;
// Shared variables of functions that are only reached through pointers lie behind this.
inline constexpr u32 kLateShared = 256 * 1024;
inline constexpr u32 kSharedBytes = kLateShared + 64 * 1024;

// Blocks that run together, on one thread of the host; most have one block.
struct Cluster {
  std::vector<Block *> blocks;  // by rank
  u32 phase = 1;                // of its barrier
  u32 arrived = 0;
};

// Above it a shared address has the rank of its block in the cluster, plus one.
inline constexpr u32 kRankShift = 24;

struct Block {
  Grid *grid = nullptr;
  Cluster *cluster = nullptr;
  u32 rank = 0;
  Dim index;
  u64 linear = 0;
  u32 threads = 0;
  u32 live = 0;
  std::byte *shared = nullptr;
  u32 shared_bytes = 0;  // static and dynamic
  Barrier barriers[kBarriers];
  std::vector<std::unique_ptr<Warp>> warps;
};

// Returns the bytes at a generic, global or constant address of a lane, or nullptr when the lane
// may not touch them.
char *host_address(Warp &w, u32 site, u32 lane, u64 address, u32 bytes, bool write);
// The bytes at a shared address that names another block of the cluster, or nullptr.
char *cluster_address(const Warp &w, u64 address, u32 bytes);
// Ends the kernel: this lane's access cannot be.
void report_address(Warp &w, const Op &o, u32 lane, u64 address, u32 bytes, bool write);

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// Decoded code. An Op carries out one PTX instruction for all 32 lanes of a warp: registers are
// rows of 32 cells, lane by lane, so that most instructions are one loop that the compiler
// vectorises. Operands are byte offsets of rows inside a frame; immediates are rows that the frame
// is filled with when it is made. A predicate is one u32 with a bit for each lane.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "softcuda/ptx/types.h"

namespace ckpt::softcuda::vm {

using Mask = u32;
inline constexpr u32 kLanes = 32;
inline constexpr Mask kAllLanes = ~0u;
inline constexpr u32 kNoRow = ~0u;

struct Warp;
struct Op;
using Run = void (*)(Warp &, const Op &, Mask);

// What the scheduler has to do besides calling `run`.
enum class Flow : u8 {
  Next,         // nothing
  Checked,      // look whether it has failed
  Branch,       // imm: target
  BranchTable,  // a: index row, list: targets
  Call,         // imm: index into Code::calls
  Return,
  Exit,
  BlockBarrier,  // bar.*, barrier.*
  WarpSync,      // `inner` deposits; `run` goes on when all lanes of the member mask are here
  ClusterArrive,
  ClusterWait,
  Yield,  // another warp has its turn behind it: nanosleep, tests of an mbarrier
};

struct Op {
  Run run = nullptr;
  Run inner = nullptr;
  i64 imm = 0;
  u32 dst = kNoRow;
  u32 dst2 = kNoRow;
  u32 a = 0, b = 0, c = 0, d = 0;
  u32 guard = kNoRow;
  u32 list = 0;  // first of `aux` rows or targets in Code::lists
  u32 line = 0;
  u16 aux = 0;
  u16 bytes = 0;  // that a lane moves between memory and registers
  Flow flow = Flow::Next;
  bool guard_negated = false;
  u8 site = 0;  // which entry of the warp's cache of memory ranges
};

struct Code;

// What a row of constants holds in each lane.
struct Constant {
  u32 row;
  u8 bytes;  // of a cell: 4 or 8
  u64 value;
};

// Where a parameter of a function lies in its frame's local memory.
struct Slot {
  u32 offset;
  u32 bytes;
};

using Builtin = void (*)(Warp &, const Op &, Mask, const std::vector<Slot> &args,
                         const std::vector<Slot> &results);

struct CallSite {
  Code *callee = nullptr;  // neither this nor a builtin: through the pointer in row Op::a
  Builtin builtin = nullptr;
  std::vector<Slot> args;
  std::vector<Slot> results;
};

struct Code {
  std::string name;
  bool entry = false;
  std::vector<Op> ops;
  std::vector<u32> lists;
  std::vector<CallSite> calls;
  std::vector<Constant> constants;
  std::vector<Slot> params;  // of a function; of an entry: offsets in the launch's parameters
  std::vector<Slot> results;
  u32 frame_bytes = 0;
  u32 local_bytes = 0;
  u32 index = 0;  // in the kernel that it belongs to
};

}  // namespace ckpt::softcuda::vm

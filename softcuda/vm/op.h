// SPDX-License-Identifier: Apache-2.0
//
// Decoded code. An Op executes one PTX instruction for all 32 lanes of a warp. A register is a row
// of 32 cells, one for each lane, so most instructions are one loop that the compiler vectorises.
// Operands are byte offsets of rows inside a frame. An immediate is a row that is filled when the
// frame is created. A predicate is one u32 with a bit for each lane.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "ptx/types.h"

namespace ckpt::softcuda::vm {

using Mask = u32;
inline constexpr u32 kLanes = 32;
inline constexpr Mask kAllLanes = ~0u;
inline constexpr u32 kNoRow = ~0u;

struct Warp;
struct Op;
using Run = void (*)(Warp &, const Op &, Mask);

// What the scheduler does besides calling `run`.
enum class Flow : u8 {
  Next,         // nothing
  Checked,      // tests Warp::failed afterwards
  Branch,       // imm: target
  BranchTable,  // a: index row, list: targets
  Call,         // imm: index into Code::calls
  Return,
  Exit,
  BlockBarrier,  // bar.*, barrier.*
  WarpSync,      // `inner` stores a lane's value; `run` when all lanes of the member mask are there
  ClusterArrive,
  ClusterWait,
  Yield,  // lets other groups and warps run: nanosleep, tests of an mbarrier
};

struct Op {
  Run run = nullptr;
  Run inner = nullptr;
  i64 imm = 0;
  u32 dst = kNoRow;
  u32 dst2 = kNoRow;
  u32 a = 0, b = 0, c = 0, d = 0;
  u32 guard = kNoRow;
  u32 list = 0;  // index of the first of `aux` rows or targets in Code::lists
  u32 line = 0;
  u16 aux = 0;
  u16 bytes = 0;  // that each lane moves between memory and registers
  Flow flow = Flow::Next;
  bool guard_negated = false;
  u8 site = 0;  // index into Warp::cache
};

struct Code;

// A row that holds the same value in each lane.
struct Constant {
  u32 row;
  u8 bytes;  // of each cell: 4 or 8
  u64 value;
};

// Where a parameter lies: offset from Frame::local_base, or for a kernel in the launch's
// parameters.
struct Slot {
  u32 offset;
  u32 bytes;
};

using Builtin = void (*)(Warp &, const Op &, Mask, const std::vector<Slot> &args,
                         const std::vector<Slot> &results);

struct CallSite {
  // If both are null, the call goes through the pointer in row Op::a.
  Code *callee = nullptr;
  Builtin builtin = nullptr;
  std::vector<Slot> args;
  std::vector<Slot> results;
};

// One decoded function.
struct Code {
  std::string name;
  bool entry = false;
  std::vector<Op> ops;
  std::vector<u32> lists;
  std::vector<CallSite> calls;
  std::vector<Constant> constants;
  std::vector<Slot> params;
  std::vector<Slot> results;
  u32 frame_bytes = 0;  // all rows
  u32 local_bytes = 0;  // .local and .param variables of each lane
  u32 index = 0;        // in its kernel
};

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// Operations that the decoder inserts around instructions, and moves that have no opcode of their
// own.
#pragma once

#include "softcuda/vm/op.h"

namespace ckpt::softcuda::isa {

// Op::aux of `special`.
enum class Special : u16 {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusteridX,
  ClusteridY,
  ClusteridZ,
  NclusteridX,
  NclusteridY,
  NclusteridZ,
  ClusterRank,
  ClusterSize,
  ExplicitCluster,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  Clock,
  ClockHi,
  Clock64,
  GlobalTimer,
  GlobalTimerLo,
  GlobalTimerHi,
  MaskEq,
  MaskLe,
  MaskLt,
  MaskGe,
  MaskGt,
  DynamicShared,
  TotalShared,
  EnvReg1,
  EnvReg2
};

struct Helpers {
  vm::Run narrow;         // a (u64 cells) -> dst (u32 cells)
  vm::Run zero_extend;    // a (u32 cells) -> dst (u64 cells)
  vm::Run sign_extend;    // a (u32 cells) -> dst (u64 cells)
  vm::Run invert;         // predicate a -> predicate dst
  vm::Run special;        // special register aux -> dst (u32 cells)
  vm::Run special_wide;   // special register aux -> dst (u64 cells)
  vm::Run frame_address;  // address of byte imm of the frame's local memory -> dst (u64 cells)
  vm::Run pack;           // aux rows in `list`, imm bits of each -> dst
  vm::Run unpack;         // a -> aux rows in `list`, imm bits each
};

const Helpers &helpers();

}  // namespace ckpt::softcuda::isa

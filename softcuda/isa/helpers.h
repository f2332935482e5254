// SPDX-License-Identifier: Apache-2.0
//
// Operations that the decoder puts beside instructions, and moves that are none by themselves.
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
  vm::Run narrow;       // u64 cells a -> u32 cells dst
  vm::Run zero_extend;  // u32 cells a -> u64 cells dst
  vm::Run sign_extend;
  vm::Run invert;         // predicate
  vm::Run special;        // aux -> u32 cells dst
  vm::Run special_wide;   // aux -> u64 cells dst
  vm::Run frame_address;  // imm bytes into the frame's local memory -> u64 cells dst
  vm::Run pack;           // aux elements, rows in `list`, each of imm bits -> dst
  vm::Run unpack;         // a -> aux elements
};

const Helpers &helpers();

}  // namespace ckpt::softcuda::isa

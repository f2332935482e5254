// SPDX-License-Identifier: Apache-2.0
//
// From a parsed instruction to what carries it out. Each family answers for its opcodes.
#pragma once

#include "softcuda/ptx/module.h"
#include "softcuda/vm/op.h"

namespace ckpt::softcuda::isa {

// How the decoder turns operands into rows.
enum class Shape : u8 {
  Plain,        // d, a, b, c, d
  Load,         // d, [address]
  Store,        // [address], a
  Atomic,       // d, [address], b, c
  Reduce,       // [address], b, c
  Address,      // d, symbol or register: mov
  NoResult,     // a, b, c
  Copy,         // [to], [from], bytes …: cp.async
  Bulk,         // [to], [from], bytes, [mbarrier]: cp.async.bulk
  MBarrier,     // [state,] [address] [, count, bytes, state or parity]
  Wide,         // mov.b128
  Matrix,       // {d…}, {a…}, {b…}, {c…}
  MatrixLoad,   // {d…}, [address], stride
  MatrixStore,  // [address], {d…}, stride
  Ignored,      // operands without effect: prefetch
  Barrier,      // bar.*
  Control,      // bra, call: the decoder knows them
  Texture,      // {d…}, [handle, {coordinates}], …
  Surface,      // sust: [handle, {coordinates}], {values}
};

struct Selected {
  vm::Run run = nullptr;
  vm::Run inner = nullptr;
  Shape shape = Shape::Plain;
  vm::Flow flow = vm::Flow::Next;
  ptx::Type dst = ptx::Type::None;
  ptx::Type src[4] = {};
  u16 aux = 0;
  i64 imm = 0;
};

// False: no such instruction.
bool select(const ptx::Instruction &in, Selected &out);

namespace baseline {
bool select(const ptx::Instruction &in, Selected &out);
}
namespace v3 {
bool select(const ptx::Instruction &in, Selected &out);
}

}  // namespace ckpt::softcuda::isa

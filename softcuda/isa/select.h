// SPDX-License-Identifier: Apache-2.0
//
// From a parsed instruction to the function that executes it. Each family of instructions handles
// its own opcodes.
#pragma once

#include "softcuda/ptx/body.h"
#include "softcuda/vm/op.h"

namespace ckpt::softcuda::isa {

// The operands of an instruction, which the decoder turns into rows.
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
  Ignored,      // the operands have no effect: prefetch
  Barrier,      // bar.*
  Control,      // bra, brx, call
  Texture,      // {d…}, [handle, {coordinates}], …
  Surface,      // sust: [handle, {coordinates}], {values}
};

struct Selected {
  // As in vm::Op.
  vm::Run run = nullptr;
  vm::Run inner = nullptr;
  Shape shape = Shape::Plain;
  vm::Flow flow = vm::Flow::Next;
  // Types of the operands.
  ptx::Type dst = ptx::Type::None;
  ptx::Type src[4] = {};
  u16 aux = 0;
  i64 imm = 0;
};

// False: the instruction is not supported.
bool select(const ptx::Instruction &in, Selected &out);

namespace baseline {
bool select(const ptx::Instruction &in, Selected &out);
}
namespace v3 {
bool select(const ptx::Instruction &in, Selected &out);
}

}  // namespace ckpt::softcuda::isa

// SPDX-License-Identifier: Apache-2.0
//
// Operands of matrix instructions. A fragment is a list of registers.
#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using isa::Shape;
using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

constexpr size_t kMaxRegisters = 16;

}  // namespace

// Appends the rows of a fragment to Code::lists, and returns their number.
Result<u32> Decoder::fragment(const Operand &o, Type type, bool write) {
  Operand list = as_vector(o);
  if (list.inner.empty() || list.inner.size() > kMaxRegisters)
    return error(*current_, "a fragment with this number of registers is not supported");
  Op op;
  CKPT_CHECK(rows_of_list(list, type, write, op));
  return static_cast<u32>(list.inner.size());
}

// {d…}, {a…}, {b…}, {c…}. Op::aux holds the number of rows of each, minus one, in four bits.
Result<> Decoder::matrix(const Instruction &in, Op op, const isa::Selected &s) {
  if (in.operands.size() != 4) return error(in, "four fragments are expected");
  u32 first = kNoRow;
  u16 counts = 0;
  for (size_t k = 0; k < 4; ++k) {
    u32 at = static_cast<u32>(code_.lists.size());
    CKPT_TRY(u32 n, fragment(in.operands[k], k == 0 || k == 3 ? s.dst : s.src[0], k == 0));
    if (k == 0) first = at;
    counts |= static_cast<u16>((n - 1) << (4 * k));
  }
  op.list = first;
  op.aux = counts;
  emit_with_widening(op);
  return {};
}

// {d…}, [address] [, stride]; a store has the address first. Op::list and Op::aux: the rows of the
// fragment; Op::b: the stride; Op::d: the offset of the address.
Result<> Decoder::matrix_access(const Instruction &in, Op op, const isa::Selected &s) {
  bool store = s.shape == Shape::MatrixStore;
  if (in.operands.size() < 2) return error(in, "too few operands");
  op.list = static_cast<u32>(code_.lists.size());
  CKPT_TRY(u32 n, fragment(in.operands[store ? 1 : 0], s.dst, !store));
  op.aux = static_cast<u16>(n);
  i64 form = op.imm;  // address() overwrites it
  CKPT_CHECK(address(in, in.operands[store ? 0 : 1], in.space(), op));
  op.d = static_cast<u32>(op.imm);
  op.imm = form;
  op.b = kNoRow;
  if (in.operands.size() > 2) {
    CKPT_TRY(op.b, source(in.operands[2], Type::U32));
  }
  emit_with_widening(op);
  return {};
}

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// Operands of instructions on matrices: fragments are lists of registers.
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

// Adds a fragment's rows to Code::lists; returns how many.
Result<u32> Decoder::fragment(const Operand &o, Type type, bool write) {
  Operand one;
  one.kind = OperandKind::Vector;
  if (o.kind != OperandKind::Vector) one.inner.push_back(o);
  const Operand &list = o.kind == OperandKind::Vector ? o : one;
  if (list.inner.empty() || list.inner.size() > kMaxRegisters)
    return error(*current_, "a fragment of that many registers is not known");
  Op op;
  CKPT_CHECK(rows_of_list(list, type, write, op));
  return static_cast<u32>(list.inner.size());
}

// {d…}, {a…}, {b…}, {c…}: how many rows each has goes into aux, four bits each, less one.
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

// {d…}, [address] [, stride], or with the first two exchanged. The fragment's rows: list, aux; the
// stride: b; what is added to the address: d.
Result<> Decoder::matrix_access(const Instruction &in, Op op, const isa::Selected &s) {
  bool store = s.shape == Shape::MatrixStore;
  if (in.operands.size() < 2) return error(in, "too few operands");
  op.list = static_cast<u32>(code_.lists.size());
  CKPT_TRY(u32 n, fragment(in.operands[store ? 1 : 0], s.dst, !store));
  op.aux = static_cast<u16>(n);
  i64 what = op.imm;
  CKPT_CHECK(address(in, in.operands[store ? 0 : 1], space_of(in), op));
  op.d = static_cast<u32>(op.imm);
  op.imm = what;
  op.b = kNoRow;
  if (in.operands.size() > 2) {
    CKPT_TRY(op.b, source(in.operands[2], Type::U32));
  }
  emit_with_widening(op);
  return {};
}

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// The operands of instructions on textures and surfaces:
//
//     tex.2d        {values}, [handle, {coordinates}];
//     tex.level.2d  {values}, [handle, {coordinates}], level;
//     tex.grad.2d   {values}|p, [handle, {coordinates}], {dx}, {dy};
//     sust.b.2d     [handle, {coordinates}], {values};
//
// Offsets and depths to compare with, which come after these, are not supported.
#include "softcuda/vm/decoder.h"
#include "softcuda/vm/texture.h"

namespace ckpt::softcuda::vm {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

// The level of detail, or the derivatives of each coordinate.
Result<> Decoder::detail(const Instruction &in, Geometry g) {
  Op unused;
  if (in.has("level")) return rows_of_list(as_vector(in.operands[2]), Type::B32, false, unused);
  for (size_t at : {2, 3}) {
    Operand d = as_vector(in.operands[at]);
    if (d.inner.size() < coordinates_of(g)) return error(in, "a derivative has too few elements");
    d.inner.resize(coordinates_of(g));
    CKPT_CHECK(rows_of_list(d, Type::F32, false, unused));
  }
  return {};
}

Result<> Decoder::texture(const Instruction &in, Op op, const isa::Selected &s) {
  bool store = in.opcode == "sust", detailed = in.has("level") || in.has("grad");
  size_t expected = in.has("grad") ? 4 : in.has("level") ? 3 : 2;
  if (in.operands.size() != expected ||
      (in.has("level") && in.operands[2].kind == OperandKind::Vector))
    return error(in, "this form is not supported by the software device");
  const Operand &where = in.operands[store ? 0 : 1];
  if (where.kind != OperandKind::Address || where.inner.size() != 2)
    return error(in, "a handle and coordinates are expected");
  Operand values = as_vector(in.operands[store ? 1 : 0]), coordinates = as_vector(where.inner[1]);
  size_t n = values.inner.size(), axes = coordinates.inner.size();
  Geometry g = static_cast<Geometry>(s.aux & 15);
  if (n == 0 || n > 4 || axes < coordinates_of(g) + (is_layered(g) ? 1 : 0) || axes > 4)
    return error(in, "the vectors have an unexpected number of elements");
  CKPT_TRY(op.a, source(where.inner[0], Type::U64));
  CKPT_CHECK(rows_of_list(values, s.dst, !store, op));
  if (!values.second.empty()) CKPT_CHECK(destination(values.second[0], Type::Pred, op.dst2));
  Op unused;  // all other rows follow the values, so op.list leads to them
  CKPT_CHECK(rows_of_list(coordinates, Type::B32, false, unused));
  if (detailed) CKPT_CHECK(detail(in, g));
  op.d = static_cast<u32>(n);
  op.c = static_cast<u32>(ptx::size_of(s.dst));
  op.imm = static_cast<i64>(axes);
  emit_with_widening(op);
  return {};
}

}  // namespace ckpt::softcuda::vm

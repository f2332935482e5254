// SPDX-License-Identifier: Apache-2.0
//
// Operands of instructions that access memory.
#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

constexpr u16 kWideRegister = 0x100;  // as in isa/memory.cc

}  // namespace

// [register + n], [variable + n], [n]
Result<> Decoder::address(const Instruction &in, const Operand &o, Space space, Op &op) {
  if (o.kind != OperandKind::Address || o.inner.size() != 1)
    return error(in, "an address is expected");
  Operand base = o.inner[0];
  bool small = space == Space::Shared || space == Space::Local;
  u64 add = base.kind == OperandKind::Register ? base.bits : 0;
  CKPT_TRY(op.a, source(base, small ? Type::U32 : Type::U64));
  op.imm = static_cast<i64>(add);
  return {};
}

Result<> Decoder::frame_or_parameter(const Operand &base, const isa::Selected &s, Op &op) {
  if (base.kind == OperandKind::Register) {
    CKPT_TRY(op.a, source(base, Type::U64));
    op.imm = static_cast<i64>(base.bits);
    return code_.entry ? Result<>()
                       : error(*current_,
                               "a parameter address in a register is not supported in functions");
  }
  if (std::optional<u32> at = parameter_offset(base.text)) {
    op.a = kNoRow;
    op.imm = static_cast<i64>(*at + base.bits);
    return {};
  }
  const Symbol *global = nullptr;
  const ptx::Variable *v =
      base.kind == OperandKind::Symbol ? find_variable(base.text, global) : nullptr;
  if (v == nullptr || global != nullptr)
    return error(*current_, fmt::format("the parameter {} is not declared", base.text));
  if (s.shape == isa::Shape::Load) op.run = s.inner;
  op.a = constant(0, 4);
  op.imm = static_cast<i64>(frame_slot(*v) + base.bits);
  return {};
}

Result<> Decoder::access(const Instruction &in, Op op, const isa::Selected &s) {
  bool write = s.shape == isa::Shape::Store;
  if (in.operands.size() < 2) return error(in, "too few operands");
  const Operand &where = in.operands[write ? 0 : 1], &what = in.operands[write ? 1 : 0];
  Space space = in.space();
  op.inner = nullptr;
  if (space != Space::Param && space != Space::Shared && space != Space::Local)
    op.bytes = static_cast<u16>(ptx::size_of(s.src[0]) * (op.aux & 0xff));
  if (space == Space::Param && where.kind == OperandKind::Address && where.inner.size() == 1) {
    CKPT_CHECK(frame_or_parameter(where.inner[0], s, op));
  } else {
    CKPT_CHECK(address(in, where, space, op));
  }
  // The access itself converts between a 64-bit register and a smaller type.
  const Operand &first =
      what.kind == OperandKind::Vector && !what.inner.empty() ? what.inner[0] : what;
  Type type = s.src[0];
  if (first.kind == OperandKind::Register && ptx::size_of(type) < 8 &&
      ptx::size_of(body_.registers[first.index].type) == 8) {
    op.aux |= kWideRegister;
    type = Type::B64;
  }
  if ((op.aux & 0xff) > 1) {
    if (what.inner.size() != (op.aux & 0xff))
      return error(in, "the vector has the wrong number of elements");
    CKPT_CHECK(rows_of_list(what, type, !write, op));
  } else if (write) {
    CKPT_TRY(op.b, source(what.kind == OperandKind::Vector && what.inner.size() == 1 ? first : what,
                          type));
  } else {
    CKPT_CHECK(destination(first, type, op.dst));
  }
  emit_with_widening(op);
  return {};
}

// On a vector, each element is an atomic operation of its own.
Result<> Decoder::atomic(const Instruction &in, Op op, const isa::Selected &s) {
  bool returns = s.shape == isa::Shape::Atomic;
  size_t first = returns ? 1 : 0;
  if (in.operands.size() < first + 2) return error(in, "too few operands");
  CKPT_CHECK(address(in, in.operands[first], in.space(), op));
  const Operand &value = in.operands[first + 1];
  bool vector = value.kind == OperandKind::Vector;
  if (vector && returns && in.operands[0].inner.size() != value.inner.size())
    return error(in, "the result has the wrong number of elements");
  op.c = kNoRow;
  if (in.has("cas")) {
    if (vector || in.operands.size() < first + 3) return error(in, "too few operands");
    CKPT_TRY(op.c, source(in.operands[first + 2], s.src[0]));
  }
  for (size_t k = 0; k < (vector ? value.inner.size() : 1); ++k) {
    if (returns) {
      const Operand &result = vector ? in.operands[0].inner[k] : in.operands[0];
      op.dst = kNoRow;
      if (result.kind != OperandKind::Sink) CKPT_CHECK(destination(result, s.dst, op.dst));
    }
    CKPT_TRY(op.b, source(vector ? value.inner[k] : value, s.src[0]));
    emit_with_widening(op);
    op.imm += static_cast<i64>(ptx::size_of(s.src[0]));
  }
  return {};
}

// cp.async.bulk [to], [from], bytes [, [mbarrier]]; a cache hint may follow.
Result<> Decoder::bulk(const Instruction &in, Op op, const isa::Selected &s) {
  bool signals = in.has("mbarrier::complete_tx::bytes");
  if (in.operands.size() < (signals ? 4u : 3u)) return error(in, "too few operands");
  auto space = [](Type t) { return t == Type::U64 ? Space::Global : Space::Shared; };
  Op from, object;
  object.a = kNoRow;
  CKPT_CHECK(address(in, in.operands[0], space(s.src[0]), op));
  CKPT_CHECK(address(in, in.operands[1], space(s.src[1]), from));
  CKPT_TRY(op.b, source(in.operands[2], Type::U32));
  if (signals) CKPT_CHECK(address(in, in.operands[3], Space::Shared, object));
  op.dst = op.a;
  op.a = from.a;
  op.d = static_cast<u32>(from.imm);
  op.c = object.a;
  op.list = static_cast<u32>(object.imm);
  emit(op);
  return {};
}

// [state or predicate,] [address] [, value]; without a value it is one arrival.
Result<> Decoder::mbarrier(const Instruction &in, Op op, const isa::Selected &s) {
  size_t at = 0;
  if (in.operands.empty()) return error(in, "too few operands");
  if (in.operands[0].kind != OperandKind::Address) {
    if (in.operands[0].kind != OperandKind::Sink)
      CKPT_CHECK(destination(in.operands[0], s.dst, op.dst));
    ++at;
  }
  if (at >= in.operands.size()) return error(in, "too few operands");
  Space space = in.space() == Space::Shared ? Space::Shared : Space::Generic;
  CKPT_CHECK(address(in, in.operands[at++], space, op));
  op.b = constant(1, 4);
  if (at < in.operands.size()) {
    CKPT_TRY(op.b, source(in.operands[at], s.src[0]));
  } else if (s.dst == Type::Pred) {
    return error(in, "too few operands");
  }
  emit_with_widening(op);
  return {};
}

// cp.async [to], [from], bytes [, wanted]
Result<> Decoder::copy(const Instruction &in, Op op) {
  if (in.operands.size() < 3 || in.operands[2].kind != OperandKind::Integer || in.has("cache_hint"))
    return error(in, "this form is not supported by the software device");
  Op from;
  CKPT_CHECK(address(in, in.operands[1], Space::Global, from));
  CKPT_CHECK(address(in, in.operands[0], Space::Shared, op));
  op.dst = op.a;
  op.a = from.a;
  op.d = static_cast<u32>(from.imm);
  op.b = kNoRow;
  op.aux = static_cast<u16>(in.operands[2].bits);
  if (op.aux != 4 && op.aux != 8 && op.aux != 16)
    return error(in, "the number of bytes must be 4, 8 or 16");
  if (in.operands.size() > 3) {
    CKPT_TRY(op.b, source(in.operands[3], Type::U32));
  }
  emit(op);
  return {};
}

}  // namespace ckpt::softcuda::vm

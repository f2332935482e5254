// SPDX-License-Identifier: Apache-2.0
//
// Operands as rows of a frame. Each register and each immediate gets its row on first use. PTX
// allows registers that are wider than the type of ld, st and cvt (PTX ISA, "Operand Size Exceeding
// Instruction-Type Size"); a source is then narrowed before the instruction, and a result widened
// after it.
#include <algorithm>
#include <bit>

#include "common/base/rounded_up.h"
#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

// Each row begins at a cache line.
u32 Decoder::new_row(size_t bytes) {
  u32 at = code_.frame_bytes;
  code_.frame_bytes += static_cast<u32>((bytes + 63) / 64 * 64);
  return at;
}

u32 Decoder::row(u32 reg) {
  if (rows_[reg] == kNoRow) {
    Type t = body_.registers[reg].type;
    rows_[reg] = new_row(t == Type::Pred ? sizeof(Mask) : kLanes * cell_bytes(t));
  }
  return rows_[reg];
}

u32 Decoder::constant(u64 value, size_t bytes) {
  if (bytes == 4) value = static_cast<u32>(value);
  auto [it, fresh] = constants_.try_emplace({value, bytes}, 0);
  if (fresh) {
    it->second = new_row(kLanes * bytes);
    code_.constants.push_back({it->second, static_cast<u8>(bytes), value});
  }
  return it->second;
}

u32 Decoder::frame_slot(const ptx::Variable &v) {
  auto [it, fresh] = frame_.try_emplace(&v, 0);
  if (fresh) {
    u32 align = std::max<u32>(v.align, 4);
    it->second = rounded_up(code_.local_bytes, align);
    code_.local_bytes = static_cast<u32>((it->second + v.bytes + 15) / 16 * 16);
  }
  return it->second;
}

Result<> Decoder::destination(const Operand &o, Type type, u32 &out) {
  size_t cell = cell_bytes(type);
  if (o.kind == OperandKind::Sink) {
    out = new_row(kLanes * cell);
    return {};
  }
  if (o.kind != OperandKind::Register) return error(*current_, "the result must be a register");
  Type reg = body_.registers[o.index].type;
  if ((reg == Type::Pred) != (type == Type::Pred))
    return error(*current_, "the result has the wrong type");
  if (type == Type::Pred || cell_bytes(reg) == cell) {
    out = row(o.index);
    return {};
  }
  if (cell_bytes(reg) < cell) return error(*current_, "the register of the result is too small");
  if (cell_bytes(reg) > 8) return error(*current_, "the result has the wrong type");
  out = new_row(kLanes * cell);
  Op widen;
  widen.run = ptx::is_signed(type) ? helpers_.sign_extend : helpers_.zero_extend;
  widen.dst = row(o.index);
  widen.a = out;
  widen.line = current_->line;
  after_.push_back(widen);
  return {};
}

Result<u32> Decoder::source(const Operand &o, Type type) {
  size_t cell = cell_bytes(type);
  if (cell > 8 && o.kind != OperandKind::Register)
    return error(*current_, "a register of 128 bits is expected");
  switch (o.kind) {
    case OperandKind::Integer:
      return constant(type == Type::Pred ? (o.bits != 0) != o.negated ? ~0u : 0u : o.bits, cell);
    case OperandKind::Float:
      return constant(type == Type::F64 ? std::bit_cast<u64>(static_cast<double>(
                                              std::bit_cast<float>(static_cast<u32>(o.bits))))
                                        : o.bits,
                      cell);
    case OperandKind::Double:
      return constant(type == Type::F32
                          ? std::bit_cast<u32>(static_cast<float>(std::bit_cast<double>(o.bits)))
                          : o.bits,
                      cell);
    case OperandKind::Symbol: return symbol(o, type);
    case OperandKind::Register: break;
    default: return error(*current_, "an operand of this kind is not supported here");
  }
  Type reg = body_.registers[o.index].type;
  if ((reg == Type::Pred) != (type == Type::Pred))
    return error(*current_, "an operand has the wrong type");
  Op op;
  op.line = current_->line;
  op.a = row(o.index);
  if (type == Type::Pred) {
    if (!o.negated) return op.a;
    op.run = helpers_.invert;
    op.dst = new_row(sizeof(Mask));
  } else {
    if (cell_bytes(reg) == cell) return op.a;
    if (cell_bytes(reg) > 8 || cell > 8) return error(*current_, "an operand has the wrong type");
    op.run = cell == 4              ? helpers_.narrow
             : ptx::is_signed(type) ? helpers_.sign_extend
                                    : helpers_.zero_extend;
    op.dst = new_row(kLanes * cell);
  }
  emit(op);
  return op.dst;
}

Result<> Decoder::plain(const Instruction &in, Op op, const isa::Selected &s) {
  if (in.operands.empty() || in.operands.size() > 6)
    return error(in, "an unexpected number of operands");
  bool syncs = s.flow == Flow::WarpSync;
  // elect.sync _|%p has no first result.
  if (!syncs || in.operands[0].kind != OperandKind::Sink)
    CKPT_CHECK(destination(in.operands[0], s.dst, op.dst));
  if (!in.operands[0].second.empty())
    CKPT_CHECK(destination(in.operands[0].second[0], Type::Pred, op.dst2));
  u32 *const rows[] = {&op.a, &op.b, &op.c, &op.d};
  if (syncs) {
    if (in.operands.size() < 2) return error(in, "too few operands");
    CKPT_TRY(op.d, source(in.operands.back(), Type::B32));
  }
  size_t sources = in.operands.size() - (syncs ? 2 : 1);
  if (sources > 4) {
    return error(in, "too many operands");
  }
  for (size_t i = 0; i < sources; ++i) {
    Operand o = in.operands[i + 1];
    // The comparison itself negates the third source of setp.
    if ((in.opcode == "setp" || in.opcode == "set") && i == 2) o.negated = false;
    // The table of lop3 is part of the instruction.
    if (in.opcode == "lop3" && i == 3) {
      op.imm = static_cast<i64>(o.bits);
      continue;
    }
    CKPT_TRY(*rows[i], source(o, s.src[i]));
  }
  emit_with_widening(op);
  return {};
}

Result<> Decoder::move(const Instruction &in, Op op, const isa::Selected &s) {
  if (in.operands.size() != 2) return error(in, "two operands are expected");
  if (in.operands[0].kind == OperandKind::Vector) return unpack(in, op, s);
  if (in.operands[1].kind == OperandKind::Vector) return pack(in, op, s);
  return plain(in, op, s);
}

// mov.b128 between registers, or from and to {low, high}.
Result<> Decoder::wide_move(const Instruction &in, Op op) {
  if (in.operands.size() != 2) return error(in, "two operands are expected");
  const Operand &to = in.operands[0], &from = in.operands[1];
  for (const Operand *o : {&to, &from})
    if (o->kind == OperandKind::Vector && o->inner.size() != 2)
      return error(in, "a vector of this shape is not supported");
  if (from.kind == OperandKind::Vector) {
    CKPT_TRY(op.a, source(from.inner[0], Type::B64));
    CKPT_TRY(op.b, source(from.inner[1], Type::B64));
  } else {
    CKPT_TRY(op.a, source(from, Type::B128));
  }
  if (to.kind != OperandKind::Vector) {
    CKPT_CHECK(destination(to, Type::B128, op.dst));
  } else {
    if (to.inner[0].kind != OperandKind::Sink)
      CKPT_CHECK(destination(to.inner[0], Type::B64, op.dst));
    if (to.inner[1].kind != OperandKind::Sink)
      CKPT_CHECK(destination(to.inner[1], Type::B64, op.dst2));
  }
  emit_with_widening(op);
  return {};
}

Result<> Decoder::pack(const Instruction &in, Op op, const isa::Selected &s) {
  const std::vector<Operand> &parts = in.operands[1].inner;
  size_t bits = 8 * ptx::size_of(s.dst) / std::max<size_t>(parts.size(), 1);
  if (parts.empty() || bits > 32 || bits < 8)
    return error(in, "a vector of this shape is not supported");
  op.run = helpers_.pack;
  op.imm = static_cast<i64>(bits);
  op.aux = static_cast<u16>(parts.size());
  CKPT_CHECK(rows_of_list(in.operands[1], Type::B32, false, op));
  CKPT_CHECK(destination(in.operands[0], s.dst, op.dst));
  emit_with_widening(op);
  return {};
}

Result<> Decoder::unpack(const Instruction &in, Op op, const isa::Selected &s) {
  const std::vector<Operand> &parts = in.operands[0].inner;
  size_t bits = 8 * ptx::size_of(s.dst) / std::max<size_t>(parts.size(), 1);
  if (parts.empty() || bits > 32 || bits < 8)
    return error(in, "a vector of this shape is not supported");
  CKPT_TRY(op.a, source(in.operands[1], s.dst));
  op.run = helpers_.unpack;
  op.imm = static_cast<i64>(bits);
  op.aux = static_cast<u16>(parts.size());
  CKPT_CHECK(rows_of_list(in.operands[0], Type::B32, true, op));
  emit_with_widening(op);
  return {};
}

Operand as_vector(const Operand &o) {
  if (o.kind == OperandKind::Vector) return o;
  Operand v;
  v.kind = OperandKind::Vector;
  v.inner.push_back(o);
  return v;
}

// Appends the rows of {a, b, …} to Code::lists. Results for `_` are discarded.
Result<> Decoder::rows_of_list(const Operand &o, Type type, bool write, Op &op) {
  std::vector<u32> rows;
  for (const Operand &part : o.inner) {
    u32 r = kNoRow;
    if (!write) {
      CKPT_TRY(r, source(part, type));
    } else if (part.kind != OperandKind::Sink) {
      CKPT_CHECK(destination(part, type, r));
    }
    rows.push_back(r);
  }
  op.list = static_cast<u32>(code_.lists.size());
  code_.lists.insert(code_.lists.end(), rows.begin(), rows.end());
  return {};
}

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
//
// Operands as rows of a frame. A register gets its row when it is first used, an immediate when it
// is first seen. Registers wider than an instruction's type (which PTX allows for ld, st and cvt)
// are narrowed before it and widened behind it.
#include <algorithm>
#include <array>
#include <bit>

#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using isa::Special;
using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

constexpr u16 kWideRegister = 0x100;  // as in isa/memory.cc

struct SpecialName {
  std::string_view name;
  Special id;
};

constexpr std::array kSpecials{
    SpecialName{"%tid.x", Special::TidX}, SpecialName{"%tid.y", Special::TidY},
    SpecialName{"%tid.z", Special::TidZ}, SpecialName{"%ntid.x", Special::NtidX},
    SpecialName{"%ntid.y", Special::NtidY}, SpecialName{"%ntid.z", Special::NtidZ},
    SpecialName{"%ctaid.x", Special::CtaidX}, SpecialName{"%ctaid.y", Special::CtaidY},
    SpecialName{"%ctaid.z", Special::CtaidZ}, SpecialName{"%nctaid.x", Special::NctaidX},
    SpecialName{"%nctaid.y", Special::NctaidY}, SpecialName{"%nctaid.z", Special::NctaidZ},
    SpecialName{"%laneid", Special::LaneId}, SpecialName{"%warpid", Special::WarpId},
    SpecialName{"%nwarpid", Special::NwarpId}, SpecialName{"%smid", Special::SmId},
    SpecialName{"%nsmid", Special::NsmId}, SpecialName{"%gridid", Special::GridId},
    SpecialName{"%clock", Special::Clock}, SpecialName{"%clock_hi", Special::ClockHi},
    SpecialName{"%clock64", Special::Clock64}, SpecialName{"%globaltimer", Special::GlobalTimer},
    SpecialName{"%globaltimer_lo", Special::GlobalTimerLo},
    SpecialName{"%globaltimer_hi", Special::GlobalTimerHi},
    SpecialName{"%lanemask_eq", Special::MaskEq}, SpecialName{"%lanemask_le", Special::MaskLe},
    SpecialName{"%lanemask_lt", Special::MaskLt}, SpecialName{"%lanemask_ge", Special::MaskGe},
    SpecialName{"%lanemask_gt", Special::MaskGt},
    SpecialName{"%dynamic_smem_size", Special::DynamicShared},
    SpecialName{"%total_smem_size", Special::TotalShared},
    SpecialName{"%envreg1", Special::EnvReg1}, SpecialName{"%envreg2", Special::EnvReg2},
    // Every block is a cluster of its own.
    SpecialName{"%is_explicit_cluster", Special::Zero},
    SpecialName{"%cluster_ctarank", Special::Zero}, SpecialName{"%cluster_nctarank", Special::One},
    SpecialName{"%cluster_ctaid.x", Special::Zero}, SpecialName{"%cluster_ctaid.y", Special::Zero},
    SpecialName{"%cluster_ctaid.z", Special::Zero}, SpecialName{"%cluster_nctaid.x", Special::One},
    SpecialName{"%cluster_nctaid.y", Special::One}, SpecialName{"%cluster_nctaid.z", Special::One},
    SpecialName{"%clusterid.x", Special::CtaidX}, SpecialName{"%clusterid.y", Special::CtaidY},
    SpecialName{"%clusterid.z", Special::CtaidZ}, SpecialName{"%nclusterid.x", Special::NctaidX},
    SpecialName{"%nclusterid.y", Special::NctaidY}, SpecialName{"%nclusterid.z", Special::NctaidZ}};

const SpecialName *special_named(std::string_view name) {
  for (const SpecialName &s : kSpecials)
    if (s.name == name) return &s;
  return nullptr;
}

size_t cell_bytes(Type t) { return ptx::size_of(t) == 8 ? 8 : 4; }

}  // namespace

// Predicates share a line of the cache; other rows begin one.
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
    it->second = (code_.local_bytes + align - 1) / align * align;
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
  if (o.kind != OperandKind::Register)
    return error(*current_, "a register is expected as the result");
  Type reg = body_.registers[o.index].type;
  if ((reg == Type::Pred) != (type == Type::Pred))
    return error(*current_, "the result's type does not fit");
  if (type == Type::Pred || cell_bytes(reg) == cell) {
    out = row(o.index);
    return {};
  }
  if (cell_bytes(reg) < cell) return error(*current_, "the result's register is too small");
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
    return error(*current_, "an operand's type does not fit");
  Op op;
  op.line = current_->line;
  op.a = row(o.index);
  if (type == Type::Pred) {
    if (!o.negated) return op.a;
    op.run = helpers_.invert;
    op.dst = new_row(sizeof(Mask));
  } else {
    if (cell_bytes(reg) == cell) return op.a;
    op.run = cell == 4              ? helpers_.narrow
             : ptx::is_signed(type) ? helpers_.sign_extend
                                    : helpers_.zero_extend;
    op.dst = new_row(kLanes * cell);
  }
  emit(op);
  return op.dst;
}

Result<u32> Decoder::symbol(const Operand &o, Type type) {
  if (const SpecialName *s = special_named(o.text)) {
    Op op;
    op.line = current_->line;
    op.run = cell_bytes(type) == 8 ? helpers_.special_wide : helpers_.special;
    op.aux = static_cast<u16>(s->id);
    op.dst = new_row(kLanes * cell_bytes(type));
    emit(op);
    return op.dst;
  }
  if (o.text == "WARP_SZ") return constant(kLanes, cell_bytes(type));
  if (o.text.starts_with('%'))
    return error(
        *current_,
        fmt::format("the special register {} is not supported by the software device", o.text));
  const Symbol *global = nullptr;
  if (const ptx::Variable *v = find_variable(o.text, global))
    return variable(*v, global, o.bits, type);
  if (std::optional<u32> at = parameter_offset(o.text))
    return constant(*at + o.bits, cell_bytes(type));
  const Symbol *s = kernel_.image().find(symbol_.module, o.text);
  if (s == nullptr || s->function == nullptr)
    return error(*current_, fmt::format("there is no {}", o.text));
  return constant(code_address(*s) + o.bits, cell_bytes(type));
}

const ptx::Variable *Decoder::find_variable(std::string_view name, const Symbol *&global) const {
  if (const ptx::Variable *v = body_.variable(name, current_->scope)) return v;
  if (!code_.entry) {
    for (const std::vector<ptx::Variable> *list : {&function_.params, &function_.results})
      for (const ptx::Variable &v : *list)
        if (v.name == name) return &v;
  }
  global = kernel_.image().find(symbol_.module, name);
  return global == nullptr ? nullptr : global->variable;
}

std::optional<u32> Decoder::parameter_offset(std::string_view name) const {
  if (!code_.entry) return {};
  for (size_t i = 0; i < function_.params.size(); ++i)
    if (function_.params[i].name == name) return code_.params[i].offset;
  return {};
}

// The address of a variable inside its own state space.
Result<u32> Decoder::variable(const ptx::Variable &v, const Symbol *global, u64 addend, Type type) {
  size_t bytes = cell_bytes(type);
  if (v.space == Space::Shared) {
    bool dynamic = v.external;
    CKPT_TRY(u32 at, dynamic ? Result<u32>(0) : kernel_.shared_offset(v));
    if (!dynamic) return constant(at + addend, bytes);
    u32 fresh = new_row(kLanes * bytes);
    code_.constants.push_back({fresh, static_cast<u8>(bytes), 0});
    kernel_.patch_later(code_, code_.constants.size() - 1, addend);
    return fresh;
  }
  if (v.space == Space::Local || v.space == Space::Param) {
    Op op;
    op.line = current_->line;
    op.run = helpers_.frame_address;
    op.imm = static_cast<i64>(frame_slot(v) + addend);
    op.dst = new_row(kLanes * 8);
    emit(op);
    if (bytes == 8) return op.dst;
    Op narrow;
    narrow.run = helpers_.narrow;
    narrow.a = op.dst;
    narrow.dst = new_row(kLanes * 4);
    emit(narrow);
    return narrow.dst;
  }
  if (global == nullptr || v.external)
    return error(*current_, fmt::format("the variable {} is not defined", v.name));
  return constant(kernel_.image().address(*global) + addend, bytes);
}

Result<> Decoder::plain(const Instruction &in, Op op, const isa::Selected &s) {
  if (in.operands.empty() || in.operands.size() > 6)
    return error(in, "an unexpected number of operands");
  bool syncs = s.flow == Flow::WarpSync;
  // elect.sync _|%p: the first result may be missing.
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
    // setp's third source is negated by the comparison itself.
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
  if (s.dst == Type::B128)
    return error(in, "128-bit registers are not supported by the software device");
  return plain(in, op, s);
}

Result<> Decoder::pack(const Instruction &in, Op op, const isa::Selected &s) {
  const std::vector<Operand> &parts = in.operands[1].inner;
  size_t bits = 8 * ptx::size_of(s.dst) / std::max<size_t>(parts.size(), 1);
  if (parts.empty() || bits > 32 || bits < 8) return error(in, "these parts are not supported");
  std::vector<u32> rows;
  for (const Operand &o : parts) {
    CKPT_TRY(u32 r, source(o, Type::B32));
    rows.push_back(r);
  }
  op.run = helpers_.pack;
  op.imm = static_cast<i64>(bits);
  op.aux = static_cast<u16>(parts.size());
  op.list = static_cast<u32>(code_.lists.size());
  code_.lists.insert(code_.lists.end(), rows.begin(), rows.end());
  CKPT_CHECK(destination(in.operands[0], s.dst, op.dst));
  emit_with_widening(op);
  return {};
}

Result<> Decoder::unpack(const Instruction &in, Op op, const isa::Selected &s) {
  const std::vector<Operand> &parts = in.operands[0].inner;
  size_t bits = 8 * ptx::size_of(s.dst) / std::max<size_t>(parts.size(), 1);
  if (parts.empty() || bits > 32 || bits < 8) return error(in, "these parts are not supported");
  CKPT_TRY(op.a, source(in.operands[1], s.dst));
  op.run = helpers_.unpack;
  op.imm = static_cast<i64>(bits);
  op.aux = static_cast<u16>(parts.size());
  CKPT_CHECK(rows_of_list(in.operands[0], Type::B32, true, op));
  emit_with_widening(op);
  return {};
}

// The rows of {a, b, …}; what is written to `_` goes nowhere.
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
                       : error(*current_, "a parameter behind a register is not supported here");
  }
  if (std::optional<u32> at = parameter_offset(base.text)) {
    op.a = kNoRow;
    op.imm = static_cast<i64>(*at + base.bits);
    return {};
  }
  const Symbol *global = nullptr;
  const ptx::Variable *v =
      base.kind == OperandKind::Symbol ? find_variable(base.text, global) : nullptr;
  if (v == nullptr || global != nullptr) return error(*current_, "there is no such parameter");
  if (s.shape == isa::Shape::Load) op.run = s.inner;
  op.a = constant(0, 4);
  op.imm = static_cast<i64>(frame_slot(*v) + base.bits);
  return {};
}

Result<> Decoder::access(const Instruction &in, Op op, const isa::Selected &s) {
  bool write = s.shape == isa::Shape::Store;
  if (in.operands.size() < 2) return error(in, "too few operands");
  const Operand &where = in.operands[write ? 0 : 1], &what = in.operands[write ? 1 : 0];
  Space space = Space::Generic;
  for (std::string_view m : in.modifiers)
    if (std::optional<Space> found = ptx::space_named(m)) space = *found;
  op.inner = nullptr;
  if (space != Space::Param && space != Space::Shared && space != Space::Local)
    op.bytes = static_cast<u16>(ptx::size_of(s.src[0]) * (op.aux & 0xff));
  if (space == Space::Param && where.kind == OperandKind::Address && where.inner.size() == 1) {
    CKPT_CHECK(frame_or_parameter(where.inner[0], s, op));
  } else {
    CKPT_CHECK(address(in, where, space, op));
  }
  // A 64-bit register for a smaller type: the access itself knows how.
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
      return error(in, "a vector of that many elements is expected");
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

Result<> Decoder::atomic(const Instruction &in, Op op, const isa::Selected &s) {
  bool returns = s.shape == isa::Shape::Atomic;
  size_t at = 0;
  if (in.operands.size() < (returns ? 3u : 2u)) return error(in, "too few operands");
  Space space = Space::Generic;
  for (std::string_view m : in.modifiers)
    if (std::optional<Space> found = ptx::space_named(m)) space = *found;
  if (returns && in.operands[0].kind != OperandKind::Sink)
    CKPT_CHECK(destination(in.operands[0], s.dst, op.dst));
  at = returns ? 1 : 0;
  CKPT_CHECK(address(in, in.operands[at++], space, op));
  CKPT_TRY(op.b, source(in.operands[at++], s.src[0]));
  op.c = kNoRow;
  if (in.has("cas")) {
    if (at >= in.operands.size()) return error(in, "too few operands");
    CKPT_TRY(op.c, source(in.operands[at], s.src[0]));
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
    return error(in, "4, 8 or 16 bytes can be copied");
  if (in.operands.size() > 3) {
    CKPT_TRY(op.b, source(in.operands[3], Type::U32));
  }
  emit(op);
  return {};
}

// tex {values}, [handle, {coordinates}]; sust [handle, {coordinates}], {values}.
Result<> Decoder::texture(const Instruction &in, Op op, const isa::Selected &s) {
  bool store = in.opcode == "sust";
  if (in.operands.size() < 2) return error(in, "too few operands");
  const Operand &where = in.operands[store ? 0 : 1], &what = in.operands[store ? 1 : 0];
  if (where.kind != OperandKind::Address || where.inner.size() != 2)
    return error(in, "a handle and coordinates are expected");
  // An offset behind the coordinates, and a level of detail, would change the result.
  bool level_zero =
      !in.has("level") || (in.operands.size() == 3 && in.operands[2].kind != OperandKind::Vector);
  if (!level_zero || in.has("grad") || in.operands.size() > 3)
    return error(in, "this form is not supported by the software device");
  std::vector<Operand> values =
      what.kind == OperandKind::Vector ? what.inner : std::vector<Operand>{what};
  const Operand &at = where.inner[1];
  std::vector<Operand> coordinates =
      at.kind == OperandKind::Vector ? at.inner : std::vector<Operand>{at};
  if (values.empty() || values.size() > 4 || coordinates.empty() || coordinates.size() > 4)
    return error(in, "an unexpected number of operands");
  CKPT_TRY(op.a, source(where.inner[0], Type::U64));
  std::vector<u32> rows;
  for (const Operand &v : values) {
    u32 r = kNoRow;
    if (store) {
      CKPT_TRY(r, source(v, s.dst));
    } else if (v.kind != OperandKind::Sink) {
      CKPT_CHECK(destination(v, s.dst, r));
    }
    rows.push_back(r);
  }
  for (const Operand &c : coordinates) {
    CKPT_TRY(u32 r, source(c, Type::B32));
    rows.push_back(r);
  }
  op.d = static_cast<u32>(values.size());
  op.c = static_cast<u32>(ptx::size_of(s.dst));
  op.imm = static_cast<i64>(coordinates.size());
  op.list = static_cast<u32>(code_.lists.size());
  code_.lists.insert(code_.lists.end(), rows.begin(), rows.end());
  emit_with_widening(op);
  return {};
}

}  // namespace ckpt::softcuda::vm

// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/decoder.h"

#include <algorithm>

#include "softcuda/vm/builtins.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

using isa::Shape;
using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

// Whether the instruction may access memory that is found by its address.
bool looks_up_ranges(const Instruction &in, const isa::Selected &s) {
  constexpr Flow kFlows[] = {Flow::Checked, Flow::Call, Flow::WarpSync, Flow::Yield};
  if (std::ranges::find(kFlows, s.flow) == std::end(kFlows)) return false;
  return in.has("global") || in.space() == ptx::Space::Generic || in.space() == ptx::Space::Const;
}

}  // namespace

Decoder::Decoder(Kernel &kernel, const Symbol &function, Code &code)
    : kernel_(kernel),
      symbol_(function),
      function_(*function.function),
      code_(code),
      helpers_(isa::helpers()) {}

Result<> decode(Kernel &kernel, const Symbol &function, Code &code) {
  return Decoder(kernel, function, code).run();
}

Failure Decoder::error(const Instruction &in, std::string_view why) const {
  return fail("{}: PTX line {}: {}: {}", function_.name, in.line, in.name, why);
}

Result<> Decoder::run() {
  if (!function_.defined)
    return fail("the function {} is called but no module defines it", function_.name);
  CKPT_TRY(body_, ptx::parse_body(function_));
  rows_.assign(body_.registers.size(), kNoRow);
  if (!code_.entry) {
    for (const ptx::Variable &v : function_.params)
      code_.params.push_back({frame_slot(v), static_cast<u32>(v.bytes)});
    for (const ptx::Variable &v : function_.results)
      code_.results.push_back({frame_slot(v), static_cast<u32>(v.bytes)});
  }
  for (const Instruction &in : body_.code) {
    current_ = &in;
    starts_.push_back(static_cast<u32>(code_.ops.size()));
    CKPT_CHECK(instruction(in));
  }
  starts_.push_back(static_cast<u32>(code_.ops.size()));
  // The end of a body is an implicit ret.
  current_ = nullptr;
  Instruction end;
  end.name = end.opcode = "ret";
  isa::Selected s;
  isa::select(end, s);
  emit(start(end, s));
  return patch_branches();
}

// Ranges that different instructions look up alternately would replace each other in the cache, so
// only these instructions get a place in it.
Op Decoder::start(const Instruction &in, const isa::Selected &s) {
  Op op;
  op.run = s.run;
  op.inner = s.inner;
  op.imm = s.imm;
  op.aux = s.aux;
  op.flow = s.flow;
  op.line = in.line;
  op.guard_negated = in.guard_negated;
  if (looks_up_ranges(in, s)) op.site = static_cast<u8>(sites_++ % kCacheSites);
  return op;
}

Result<> Decoder::instruction(const Instruction &in) {
  isa::Selected s;
  if (!isa::select(in, s))
    return error(in, "this instruction is not supported by the software device");
  return shaped(in, s);
}

Result<> Decoder::shaped(const Instruction &in, const isa::Selected &s) {
  Op op = start(in, s);
  switch (s.shape) {
    case Shape::Plain: return plain(in, op, s);
    case Shape::NoResult: {
      CKPT_TRY(op.d, source(in.operands.empty() ? Operand{} : in.operands[0], Type::B32));
      emit(op);
      return {};
    }
    case Shape::Address: return move(in, op, s);
    case Shape::Load:
    case Shape::Store: return access(in, op, s);
    case Shape::Atomic:
    case Shape::Reduce: return atomic(in, op, s);
    case Shape::Copy: return copy(in, op);
    case Shape::Bulk: return bulk(in, op, s);
    case Shape::MBarrier: return mbarrier(in, op, s);
    case Shape::Wide: return wide_move(in, op);
    case Shape::Matrix: return matrix(in, op, s);
    case Shape::MatrixLoad:
    case Shape::MatrixStore: return matrix_access(in, op, s);
    case Shape::Barrier: return barrier(in, op, s);
    case Shape::Texture:
    case Shape::Surface: return texture(in, op, s);
    case Shape::Control: break;
    case Shape::Ignored: emit(op); return {};
  }
  if (s.flow == Flow::Branch) return branch(in, op);
  if (s.flow == Flow::BranchTable) return branch_table(in, op);
  return call(in, op);
}

u32 Decoder::emit(Op op) {
  if (current_ != nullptr && current_->guarded) {
    op.guard = row(current_->guard);
    op.guard_negated = current_->guard_negated;
  }
  code_.ops.push_back(op);
  return static_cast<u32>(code_.ops.size() - 1);
}

void Decoder::emit_with_widening(Op op) {
  emit(op);
  for (const Op &next : after_) emit(next);
  after_.clear();
}

Result<> Decoder::branch(const Instruction &in, Op op) {
  if (in.operands.size() != 1 || in.operands[0].kind != OperandKind::Symbol)
    return error(in, "a label is expected");
  size_t at = emit(op);
  fixups_.push_back({at, &in, in.operands[0].text, {}});
  return {};
}

Result<> Decoder::branch_table(const Instruction &in, Op op) {
  if (in.operands.size() != 2) return error(in, "an index and a list are expected");
  const ptx::Label *list = body_.label(in.operands[1].text, in.scope);
  if (list == nullptr || list->targets.empty())
    return error(in, fmt::format("the list of targets {} is not defined", in.operands[1].text));
  CKPT_TRY(op.a, source(in.operands[0], Type::U32));
  op.list = static_cast<u32>(code_.lists.size());
  op.aux = static_cast<u16>(list->targets.size());
  code_.lists.resize(code_.lists.size() + list->targets.size());
  size_t at = emit(op);
  for (size_t i = 0; i < list->targets.size(); ++i)
    fixups_.push_back({at, &in, list->targets[i], op.list + i});
  return {};
}

Result<> Decoder::patch_branches() {
  for (const Fixup &f : fixups_) {
    const ptx::Label *label = body_.label(f.label, f.in->scope);
    if (label == nullptr) return error(*f.in, fmt::format("the label {} is not defined", f.label));
    u32 target = starts_[label->target];
    if (f.list)
      code_.lists[*f.list] = target;
    else
      code_.ops[f.op].imm = target;
  }
  return {};
}

Result<> Decoder::call(const Instruction &in, Op op) {
  CallSite site;
  size_t at = 0;
  if (in.operands.empty()) return error(in, "a function is expected");
  if (in.operands[0].kind == OperandKind::List) {
    CKPT_TRY(site.results, slots(in, in.operands[0]));
    ++at;
  }
  if (at >= in.operands.size()) return error(in, "a function is expected");
  const Operand &target = in.operands[at++];
  if (at < in.operands.size() && in.operands[at].kind == OperandKind::List) {
    CKPT_TRY(site.args, slots(in, in.operands[at]));
  }
  CKPT_CHECK(callee(target, site, op));
  op.imm = static_cast<i64>(code_.calls.size());
  code_.calls.push_back(std::move(site));
  emit(op);
  return {};
}

Result<> Decoder::callee(const Operand &o, CallSite &site, Op &op) {
  if (o.kind == OperandKind::Register) {
    CKPT_TRY(op.a, source(o, Type::B64));
    return {};
  }
  const Symbol *s = kernel_.image().find(symbol_.module, o.text);
  if (s == nullptr || s->function == nullptr)
    return error(*current_, fmt::format("the function {} is not declared", o.text));
  if (s->function->defined) {
    site.callee = kernel_.code_of(*s);
    if (site.args.size() != s->function->params.size() ||
        site.results.size() != s->function->results.size())
      return error(*current_, fmt::format("the call does not match the parameters of {}", o.text));
    return {};
  }
  site.builtin = builtin_named(o.text);
  if (site.builtin == nullptr)
    return error(
        *current_,
        fmt::format("the function {} is neither defined nor known to the software device", o.text));
  return {};
}

Result<std::vector<Slot>> Decoder::slots(const Instruction &in, const Operand &list) {
  std::vector<Slot> out;
  for (const Operand &o : list.inner) {
    const ptx::Variable *v =
        o.kind == OperandKind::Symbol ? body_.variable(o.text, in.scope) : nullptr;
    if (v == nullptr) return error(in, "only .param variables are supported as arguments");
    out.push_back({frame_slot(*v), static_cast<u32>(v->bytes)});
  }
  return out;
}

// bar.sync a [, b]; bar.arrive a, b; bar.red d, a [, b], c.
Result<> Decoder::barrier(const Instruction &in, Op op, const isa::Selected &s) {
  size_t at = 0;
  bool reduces = s.dst != Type::None;
  if (in.operands.size() < (reduces ? 3u : 1u)) return error(in, "too few operands");
  if (reduces) CKPT_CHECK(destination(in.operands[at++], s.dst, op.dst));
  CKPT_TRY(op.a, source(in.operands[at++], Type::U32));
  op.b = kNoRow;
  if (in.operands.size() - at > (reduces ? 1u : 0u)) {
    CKPT_TRY(op.b, source(in.operands[at++], Type::U32));
  }
  if (reduces) {
    CKPT_TRY(op.c, source(in.operands[at], Type::Pred));
  }
  emit_with_widening(op);
  return {};
}

}  // namespace ckpt::softcuda::vm
